package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// publishFunc is a publisher of one message at a time.
type publishFunc func(msg *message.Message) error

func (f publishFunc) Publish(_ string, messages ...*message.Message) error {
	if len(messages) != 1 {
		return errors.New("a lane publishes one by one")
	}
	return f(messages[0])
}

func (publishFunc) Close() error { return errors.New("not ours to close") }

func full(part int, seq int64, key string) item {
	return item{Record: gormoutbox.Record{
		Part: part, Seq: seq, AggregateType: "a", AggregateID: key, ID: uuid.New(), EventType: "e", Payload: fmt.Append(nil, key, seq),
	}}
}

func newLanes(workers int, f publishFunc) *lanes {
	return &lanes{publisher: f, workers: workers, timeout: time.Hour, valid: func(int) bool { return true }}
}

func TestLanesKeepOrderInsideAndRunBesideEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		running, most := 0, 0
		l := newLanes(4, func(msg *message.Message) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second) // the bubble's clock
			mu.Lock()
			defer mu.Unlock()
			running--
			got = append(got, string(msg.Payload))
			return nil
		})
		// A delayed event comes first and takes its place.
		items := []item{full(1, 3, "k"), full(1, 1, "k"), full(1, 2, "k"), full(1, 4, "l"), full(1, 5, "m"), full(1, 6, "n"), full(1, 7, "o"), full(1, 8, "p")}
		begin := time.Now()
		out := l.send(t.Context(), nil, items)
		assert.Len(t, out, 8)
		assert.Equal(t, 4, most)
		assert.Equal(t, 3*time.Second, time.Since(begin))
		var k []string
		for _, p := range got {
			if p[0] == 'k' {
				k = append(k, p)
			}
		}
		assert.Equal(t, []string{"k1", "k2", "k3"}, k)
		for _, o := range out {
			assert.NoError(t, o.err)
			assert.Equal(t, time.Second, o.took)
		}
	})
}

func TestALaneEndsAtItsFirstFailure(t *testing.T) {
	t.Parallel()
	l := newLanes(2, func(msg *message.Message) error {
		switch string(msg.Payload) {
		case "k2":
			return errors.New("no")
		case "l4":
			panic("oh")
		}
		return nil
	})
	out := l.send(t.Context(), nil, []item{full(1, 1, "k"), full(1, 2, "k"), full(1, 3, "k"), full(1, 4, "l"), full(1, 5, "l")})
	errs := map[int64]error{}
	for _, o := range out {
		errs[o.item.Seq] = o.err
	}
	require.Len(t, errs, 3)
	require.NoError(t, errs[1])
	require.EqualError(t, errs[2], "no")
	require.EqualError(t, errs[4], "relay: the publisher panicked: oh")
}

func TestOthersTellsAPoisonFromAnOutage(t *testing.T) {
	t.Parallel()
	failing := map[string]bool{"bad": true}
	l := newLanes(1, func(msg *message.Message) error {
		if failing[string(msg.Payload[:3])] {
			return errors.New("no")
		}
		return nil
	})
	others := func(items ...item) bool {
		for _, o := range l.send(t.Context(), nil, items) {
			if o.err != nil {
				return o.others
			}
		}
		t.Fatal("nothing failed")
		return false
	}
	assert.False(t, others(full(1, 1, "bad")), "alone")
	assert.True(t, others(full(1, 1, "bad"), full(1, 2, "good")), "another was published after it began")
	assert.False(t, others(full(1, 1, "good"), full(1, 2, "bad")), "another was published before it began")
	mixed := []item{full(1, 1, "good"), full(1, 2, "bad")}
	mixed[0].AggregateID = "bad"
	assert.False(t, others(mixed...), "its own aggregate is not another")
}

func TestLanesStop(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(stop chan struct{}, lost chan struct{}){
		"when told":              func(stop, _ chan struct{}) { close(stop) },
		"when the lease is lost": func(_, lost chan struct{}) { close(lost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop, lost := make(chan struct{}), make(chan struct{})
			l := newLanes(1, func(*message.Message) error { end(stop, lost); return nil })
			l.valid = func(int) bool {
				select {
				case <-lost:
					return false
				default:
					return true
				}
			}
			out := l.send(t.Context(), stop, []item{full(1, 1, "k"), full(1, 2, "k"), full(2, 3, "l")})
			require.Len(t, out, 1)
			assert.NoError(t, out[0].err, "what was in flight is finished and counts")
		})
	}
}

func TestAHungPublishIsGivenUpAndItsOutcomeDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newLanes(2, func(msg *message.Message) error {
			if string(msg.Payload) == "hung1" {
				<-release
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out := l.send(ctx, nil, []item{full(1, 1, "hung"), full(1, 2, "hung"), full(1, 3, "k")})
		require.Len(t, out, 1)
		assert.EqualValues(t, 3, out[0].item.Seq)
		close(release)
		synctest.Wait()
		assert.Len(t, out, 1)
		assert.EqualValues(t, 2, l.successes.Load(), "the lane ended behind the hung one")
	})
}
