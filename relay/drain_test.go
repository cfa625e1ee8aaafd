package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

func TestDrainPublishesWhatIsPendingAndReturns(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		parked, pub := newPoison("parked0"), newRecorder()
		retried := 0
		pub.fail = func(topic string, msg *message.Message) error {
			if string(msg.Payload) == "retry0" && retried < 2 {
				retried++
				return errPoison
			}
			return parked.fail(topic, msg)
		}
		add(t, g, append(series("parked", "parked", 2), series("good", "good", 700)...)...)
		add(t, g, series("retry", "retry", 2)...)
		later := event("later", "later")
		later.AvailableAt = time.Now().Add(time.Hour)
		add(t, g, later)
		c := quick()
		c.MaxAttempts, c.Logger = 3, quiet
		c.MinBackoff, c.MaxBackoff = 300*time.Millisecond, 300*time.Millisecond
		r, err := relay.New(g, pub, c)
		require.NoError(t, err)
		require.NoError(t, r.Drain(t.Context()))
		assert.Equal(t, []string{"retry0", "retry1"}, pub.of("retry"))
		assert.Len(t, pub.of("good"), 700)
		assert.Empty(t, pub.of("later"))
		assert.Empty(t, pub.of("parked"))
		assert.Equal(t, 3, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "it has given all back")
		require.ErrorIs(t, r.Drain(t.Context()), relay.ErrRunning)
	})
}

func TestDrainOfAnEmptyOutboxReturns(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		r, err := relay.New(open(t, db), newRecorder(), relay.Config{Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, r.Drain(t.Context()))
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	pub := newRecorder()
	tried := make(chan struct{}, 1)
	pub.fail = func(string, *message.Message) error {
		select {
		case tried <- struct{}{}:
		default:
		}
		return errPoison
	}
	add(t, g, event("k", "x"))
	r, err := relay.New(g, pub, quick())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-tried
		cancel()
	}()
	require.ErrorIs(t, r.Drain(ctx), context.Canceled)
}

func TestErrorsAreToldAndKept(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	bad, pub := newPoison("bad0"), newRecorder()
	pub.fail = bad.fail
	var mu sync.Mutex
	var told []error
	c := quick()
	c.MaxAttempts, c.Logger = 2, quiet
	c.OnError = func(err error) {
		mu.Lock()
		told = append(told, err)
		mu.Unlock()
		panic("ignored")
	}
	r, err := relay.New(g, pub, c)
	require.NoError(t, err)
	assert.Equal(t, relay.Health{}, r.Health())
	id := event("bad", "bad0")
	id.Topic = "there"
	add(t, g, id, event("good", "good"))
	require.NoError(t, r.Drain(t.Context()))

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, told, 2)
	for i, err := range told {
		var failed *relay.PublishError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, errPoison)
		assert.Equal(t, i+1, failed.Attempts)
		assert.Equal(t, i == 1, failed.Parked)
		assert.Equal(t, "there", failed.Topic)
		assert.Equal(t, "a.happened", failed.EventType)
		assert.Equal(t, "bad", failed.AggregateID)
		assert.NotContains(t, err.Error(), "bad0", "no payload")
	}
	h := r.Health()
	assert.False(t, h.Running)
	assert.EqualValues(t, 1, h.Published)
	assert.EqualValues(t, 2, h.Failed)
	require.ErrorIs(t, h.LastError, errPoison)
	assert.False(t, h.LastErrorAt.IsZero())
	assert.False(t, h.LastPass.IsZero())
	assert.False(t, h.Outage)
}

func TestHealthKnowsOfAnOutage(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	pub := newRecorder()
	away := errors.New("away")
	var mu sync.Mutex
	failing := away
	pub.fail = func(string, *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		return failing
	}
	r, err := relay.New(g, pub, relay.Config{Logger: quiet, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	add(t, g, gormoutbox.Event{Type: "x", Payload: "x"})
	eventually(t, "an outage", func() bool { h := r.Health(); return h.Outage && h.Running && h.Partitions == 64 })
	require.ErrorIs(t, r.Health().LastError, away)
	mu.Lock()
	failing = nil
	mu.Unlock()
	eventually(t, "it is over", func() bool { h := r.Health(); return !h.Outage && h.Published == 1 })
	cancel()
	require.NoError(t, <-done)
	assert.False(t, r.Health().Running)
	assert.Zero(t, r.Health().Failed)
}
