package watermilladapter_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

func record() gormoutbox.Record {
	return gormoutbox.Record{
		ID: uuid.Must(uuid.NewV7()), AggregateType: "order", AggregateID: "a|b \U0001F600", EventType: "order.created",
		Payload: []byte{0, 1, 0xff}, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC),
		Headers: map[string]string{
			gormoutbox.HeaderEventVersion: "2", gormoutbox.HeaderChanged: "status,amount",
			gormoutbox.HeaderTraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			gormoutbox.HeaderTraceState:  "a=b", gormoutbox.HeaderCorrelationID: "c-1", "own": "x\x00y",
		},
	}
}

func TestEveryHeaderIsOnTheMessage(t *testing.T) {
	t.Parallel()
	r := record()
	msg, err := watermilladapter.ToMessage(r)
	require.NoError(t, err)
	assert.Equal(t, r.ID.String(), msg.UUID)
	assert.Equal(t, []byte{0, 1, 0xff}, []byte(msg.Payload))
	assert.Equal(t, message.Metadata{
		"aggregate_type": "order", "aggregate_id": "a|b \U0001F600", "event_type": "order.created",
		"name": "order.created", "occurred_at": "2026-01-02T03:04:05.678Z", "event_version": "2", "changed": "status,amount",
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b",
		"correlation_id": "c-1", "own": "x\x00y",
	}, msg.Metadata)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gormoutbox.Record){
		"with aggregate":    func(*gormoutbox.Record) {},
		"without aggregate": func(r *gormoutbox.Record) { r.AggregateType, r.AggregateID = "", "" },
		"empty payload":     func(r *gormoutbox.Record) { r.Payload = []byte{} },
		"no headers":        func(r *gormoutbox.Record) { r.Headers = map[string]string{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := record()
			change(&want)
			msg, err := watermilladapter.ToMessage(want)
			require.NoError(t, err)
			got, err := watermilladapter.FromMessage(msg)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestTopic(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "order.created", watermilladapter.Topic(gormoutbox.Record{EventType: "order.created"}))
	assert.Equal(t, "orders", watermilladapter.Topic(gormoutbox.Record{EventType: "order.created", Topic: "orders"}))
}

func TestMetadataIsNeverNilNorShared(t *testing.T) {
	t.Parallel()
	r := record()
	msg, err := watermilladapter.ToMessage(r)
	require.NoError(t, err)
	msg.Metadata.Set("added", "by a publisher")
	assert.NotContains(t, r.Headers, "added")
	r.Headers = nil
	msg, err = watermilladapter.ToMessage(r)
	require.NoError(t, err)
	assert.NotNil(t, msg.Metadata)
}

func TestRowsThatAreNoMessage(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*gormoutbox.Record){
		"id":           func(r *gormoutbox.Record) { r.ID = uuid.Nil },
		"event_type":   func(r *gormoutbox.Record) { r.EventType = "" },
		"aggregate_id": func(r *gormoutbox.Record) { r.AggregateID = "" },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			r := record()
			change(&r)
			_, err := watermilladapter.ToMessage(r)
			requireField(t, err, field)
		})
	}
}

func TestMessagesThatAreNoEvent(t *testing.T) {
	t.Parallel()
	_, err := watermilladapter.FromMessage(nil)
	requireField(t, err, "message")
	for field, change := range map[string]func(*message.Message){
		"UUID":         func(m *message.Message) { m.UUID = "" },
		"event_type":   func(m *message.Message) { delete(m.Metadata, "event_type") },
		"aggregate_id": func(m *message.Message) { delete(m.Metadata, "aggregate_id") },
		"occurred_at":  func(m *message.Message) { m.Metadata.Set("occurred_at", "yesterday") },
		"own":          func(m *message.Message) { m.Metadata.Set("own", "\xff") },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			msg, err := watermilladapter.ToMessage(record())
			require.NoError(t, err)
			change(msg)
			_, err = watermilladapter.FromMessage(msg)
			requireField(t, err, field)
		})
	}
}

func requireField(t *testing.T, err error, field string) {
	t.Helper()
	var e *watermilladapter.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, field, e.Field)
	assert.NotEmpty(t, e.Cause)
	assert.NotEmpty(t, e.Cure)
}
