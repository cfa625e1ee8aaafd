package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func event(id uuid.UUID, eventType, payload string) *message.Message {
	msg := message.NewMessage(id.String(), []byte(payload))
	msg.Metadata.Set(gormoutbox.HeaderEventType, eventType)
	return msg
}

// TestRouter runs the router on messages in memory.
func TestRouter(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t).Open(t)
	require.NoError(t, migrate(t.Context(), db))
	// One message after the other, as Kafka does within a partition.
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	poisoned, err := pubsub.Subscribe(t.Context(), "orders.poison")
	require.NoError(t, err)
	router, err := newRouter(db, slog.New(slog.DiscardHandler), "orders", pubsub, pubsub)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- router.Run(t.Context()) }()
	defer func() {
		assert.NoError(t, router.Close())
		assert.NoError(t, <-done)
	}()
	<-router.Running()

	publish := func(msg *message.Message) { assert.NoError(t, pubsub.Publish("orders", msg)) }
	created, paid := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	order := uuid.NewString()
	for range 2 { // delivered twice
		publish(event(created, "order.created", `{"id":"`+order+`","sku":"tea","quantity":2,"status":"placed"}`))
	}
	for range 2 {
		publish(event(paid, "order.updated", `{"id":"`+order+`","sku":"tea","quantity":2,"status":"paid"}`))
	}
	publish(event(uuid.New(), "order.deleted", `{"id":"`+order+`"}`)) // of no interest

	var reservations []Reservation
	require.NoError(t, db.Find(&reservations).Error)
	require.Len(t, reservations, 1)
	assert.Equal(t, order, reservations[0].OrderID.String())
	assert.True(t, reservations[0].Paid)
	var item Item
	require.NoError(t, db.Take(&item, "sku = ?", "tea").Error)
	assert.Equal(t, 2, item.Reserved)

	for name, msg := range map[string]*message.Message{
		"no JSON":    event(uuid.New(), "order.created", "{"),
		"no id":      message.NewMessage("", []byte("{}")),
		"no created": event(uuid.New(), "order.updated", `{"id":"`+uuid.NewString()+`","status":"paid"}`),
	} {
		go publish(msg) // returns when it has been put aside
		select {
		case got := <-poisoned:
			assert.Equal(t, msg.Payload, got.Payload, name)
			got.Ack()
		case <-time.After(20 * time.Second):
			require.Fail(t, "not put aside", name)
		}
	}
}
