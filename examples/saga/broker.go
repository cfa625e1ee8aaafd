package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// broker stands for Kafka and its like. It keeps what it was given, for the report.
type broker struct {
	pubsub *gochannel.GoChannel
	last   []string      // the names of the last messages of sagas
	done   chan struct{} // closed when no saga is open

	mu   sync.Mutex
	sent []sent
	open int // sagas whose last message was not handled yet
}

// sent is a message with the service whose relay has published it.
type sent struct {
	service string
	msg     *message.Message
}

// newBroker returns a broker that waits for the ends of so many sagas.
func newBroker(sagas int, last ...string) *broker {
	return &broker{
		// Publish returns when every reader of the topic has acknowledged.
		pubsub: gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{}),
		last:   last, open: sagas, done: make(chan struct{}),
	}
}

// wait returns when all sagas have ended.
func (b *broker) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the ends of the sagas: %w", ctx.Err())
	}
}

// saga returns the messages with a correlation id, as they were published.
func (b *broker) saga(correlation string) []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.sent), func(s sent) bool {
		return s.msg.Metadata.Get(gormoutbox.HeaderCorrelationID) != correlation
	})
}

func (b *broker) shutdown() error { return b.pubsub.Close() }

// client is a service's connection to the broker.
type client struct {
	broker  *broker
	service string
}

var (
	_ message.Publisher  = (*client)(nil)
	_ message.Subscriber = (*client)(nil)
)

func (b *broker) connect(service string) *client { return &client{b, service} }

// Publish is called by the service's relay.
func (c *client) Publish(topic string, messages ...*message.Message) error {
	b := c.broker
	b.mu.Lock()
	for _, msg := range messages {
		b.sent = append(b.sent, sent{c.service, msg})
	}
	b.mu.Unlock()
	if err := b.pubsub.Publish(topic, messages...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, msg := range messages {
		if !slices.Contains(b.last, msg.Metadata.Get(gormoutbox.HeaderName)) {
			continue
		}
		if b.open--; b.open == 0 {
			close(b.done)
		}
	}
	return nil
}

// Subscribe is called by the service's router, whose end ends the subscription by ctx.
func (c *client) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return c.broker.pubsub.Subscribe(ctx, topic)
}

// Close leaves the broker to the other service.
func (c *client) Close() error { return nil }
