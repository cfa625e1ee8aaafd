package dedup_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestAMessageThatIsSentOn has been caused by the one that it is a copy of; and an empty correlation id, which Watermill's
// CorrelationID gives to what comes of a message without one, is none.
func TestAMessageThatIsSentOn(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{Headers: func(context.Context) map[string]string {
		return map[string]string{"correlation_id": "of the plugin"}
	}})
	_, err := b.d.Middleware(middleware.CorrelationID(func(msg *message.Message) ([]*message.Message, error) {
		own := message.NewMessage("o", nil)
		own.Metadata.Set("causation_id", "mine")
		return message.Messages{msg, own}, nil
	}))(incoming(t, "m1", message.Metadata{"causation_id": "m0"}))
	require.NoError(t, err)
	all := b.outbox(t)
	require.Len(t, all, 2)
	assert.Equal(t, map[string]string{"origin_id": "m1", "causation_id": "m1", "correlation_id": "of the plugin"}, all[0].headers(t))
	assert.Equal(t, map[string]string{"origin_id": "o", "causation_id": "mine", "correlation_id": "of the plugin"}, all[1].headers(t))
}

// TestDoCausesItsEvents: the id is their causation id.
func TestDoCausesItsEvents(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{})
	_, err := b.d.Do(t.Context(), "webhook-7", func(ctx context.Context) error {
		return gormoutbox.Append(dedup.Tx(ctx), gormoutbox.Event{Type: "t", Payload: "1"})
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"causation_id": "webhook-7"}, b.outbox(t)[0].headers(t))
}

// TestHeadersThatAreNoText do not travel on, since no event can have them.
func TestHeadersThatAreNoText(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{})
	_, err := b.d.Middleware(func(*message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage("o", nil)}, nil
	})(incoming(t, "m1", message.Metadata{"correlation_id": "\xff", "traceparent": "tp"}))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"origin_id": "o", "causation_id": "m1", "traceparent": "tp"}, b.outbox(t)[0].headers(t))
}

// TestEventsOfAHandlerTravel: saves and appends of a handler have the headers of its message too, but below those of a span of its own.
func TestEventsOfAHandlerTravel(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{Headers: func(ctx context.Context) map[string]string {
		if span, ok := ctx.Value(testKey{}).(string); ok {
			return map[string]string{"traceparent": span}
		}
		return nil
	}})
	appendEvent := func(ctx context.Context) error {
		return gormoutbox.Append(dedup.Tx(ctx), gormoutbox.Event{Type: "t", Payload: "1"})
	}
	_, err := b.d.Middleware(consumer(func(msg *message.Message) error {
		if err := appendEvent(msg.Context()); err != nil {
			return err
		}
		return appendEvent(context.WithValue(msg.Context(), testKey{}, "span"))
	}))(incoming(t, "m1", message.Metadata{"correlation_id": "c", "traceparent": "tp", "tracestate": "ts"}))
	require.NoError(t, err)
	all := b.outbox(t)
	require.Len(t, all, 2)
	assert.Equal(t, map[string]string{"correlation_id": "c", "causation_id": "m1", "traceparent": "tp", "tracestate": "ts"}, all[0].headers(t))
	assert.Equal(t, map[string]string{"correlation_id": "c", "causation_id": "m1", "traceparent": "span"}, all[1].headers(t), "no state of another trace")
}

// TestCorrelationIDOutside sees no messages any more; what it does is done by the middleware.
func TestCorrelationIDOutside(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{})
	h := middleware.CorrelationID(b.d.Middleware(func(*message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage("o", nil)}, nil
	}))
	_, err := h(incoming(t, "m1", message.Metadata{"correlation_id": "c"}))
	require.NoError(t, err)
	assert.Equal(t, "c", b.outbox(t)[0].headers(t)["correlation_id"])
}
