package relay_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

func TestThePayloadIsPublishedByteForByte(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		large := make([]byte, 1<<20)
		random := rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(large) // never fails
		payloads := [][]byte{
			{}, {0}, {0, 1, 0xff, 0xfe, '\\', '\'', '"', 0x80}, []byte(`{"b":1,"a":"\u0000", "a":2e400}`), []byte("ünï\U0001F600 "), large,
		}
		for i, p := range payloads {
			e := event(fmt.Sprint(i), "")
			e.Payload = p
			add(t, g, e)
		}
		pub := newRecorder()
		start(t, g, pub, relay.Config{})
		pub.wait(t, len(payloads))
		seen := map[string]bool{}
		for _, m := range pub.messages {
			seen[string(m.Payload)] = true
		}
		for i, p := range payloads {
			assert.True(t, seen[string(p)], "payload %d of %d bytes", i, len(p))
		}
		assert.True(t, bytes.Equal(large, payloads[len(payloads)-1]))
	})
}

func TestWhatIsOnTheMessage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		id := uuid.Must(uuid.NewV7())
		key := "aBc ü|\U0001F600 "
		add(t, g, gormoutbox.Event{
			ID: id, AggregateType: "order", AggregateID: key, Type: "order.shipped", Topic: "orders", Version: "3",
			Payload: "x", Headers: map[string]string{"own": "välue"},
		}, gormoutbox.Event{Type: "alone", Payload: "y"})
		pub := newRecorder()
		start(t, g, pub, relay.Config{})
		pub.wait(t, 2)
		first := 0
		if string(pub.messages[0].Payload) == "y" {
			first = 1
		}
		m := pub.messages[first]
		assert.Equal(t, id.String(), m.UUID)
		assert.Equal(t, "orders", pub.topics[first], "the event's own topic")
		assert.Equal(t, "alone", pub.topics[1-first], "else its type")
		at, err := time.Parse(time.RFC3339Nano, m.Metadata.Get(gormoutbox.HeaderOccurredAt))
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), at, time.Minute)
		delete(m.Metadata, gormoutbox.HeaderOccurredAt)
		assert.Equal(t, map[string]string{
			gormoutbox.HeaderAggregateType: "order", gormoutbox.HeaderAggregateID: key, gormoutbox.HeaderEventType: "order.shipped",
			gormoutbox.HeaderName: "order.shipped", gormoutbox.HeaderEventVersion: "3", "own": "välue",
		}, map[string]string(m.Metadata))
		assert.NotContains(t, pub.messages[1-first].Metadata, gormoutbox.HeaderAggregateID)
		select {
		case <-m.Context().Done():
			t.Error("the context of a message ends with the relay, not before")
		default:
		}
	})
}

// TestEveryAttemptHasTheSameIDAndAFreshMessage: publishers may change a message.
func TestEveryAttemptHasTheSameIDAndAFreshMessage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		ids := make(chan string, 3)
		pub.fail = func(_ string, m *message.Message) error {
			assert.Empty(t, m.Metadata.Get("changed by a publisher"))
			m.Metadata.Set("changed by a publisher", "x")
			select {
			case ids <- m.UUID:
				return errPoison
			default:
				return nil
			}
		}
		start(t, g, pub, quick())
		add(t, g, event("k", "x"))
		pub.wait(t, 1)
		for range 3 {
			assert.Equal(t, pub.messages[0].UUID, <-ids)
		}
		var id string
		require.NoError(t, g.Raw("SELECT id FROM outbox_events").Scan(&id).Error)
		assert.Equal(t, id, pub.messages[0].UUID)
	})
}
