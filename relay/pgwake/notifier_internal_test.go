package pgwake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// fakeSender notes when it sent, on the bubble's clock.
type fakeSender struct {
	begin time.Time
	count atomic.Int64 // commits

	mu    sync.Mutex
	err   error
	takes time.Duration
	seen  seen
}

// seen is what a fakeSender was asked for.
type seen struct {
	at []time.Duration
	// last is the number of commits at the last sending.
	last                   int64
	attempts, pings, drops int
	// within is how much time the last sending had, 0 without an end, and ended is whether its context had ended before.
	within time.Duration
	ended  bool
}

func (s *fakeSender) send(ctx context.Context) error {
	last := s.count.Load() // what a reader sees that is woken by it
	s.mu.Lock()
	takes := s.takes
	s.seen.attempts++
	s.seen.within, s.seen.ended = 0, ctx.Err() != nil
	if end, ok := ctx.Deadline(); ok {
		s.seen.within = time.Until(end)
	}
	s.mu.Unlock()
	time.Sleep(takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.seen.at, s.seen.last = append(s.seen.at, time.Since(s.begin)), last
	return nil
}

func (s *fakeSender) ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.pings++
	return s.err
}

func (s *fakeSender) drop(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.drops++
}

// behave sets how the next calls end and how long a sending takes.
func (s *fakeSender) behave(err error, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.takes = err, takes
}

func (s *fakeSender) see() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// bench is the loop of a notifier in a bubble.
type bench struct {
	*fakeSender

	n                  *Notifier
	committed, pending chan struct{}
	stop               func()
}

func newBench(t *testing.T, config Config) *bench {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	config = config.withDefaults()
	b := &bench{
		fakeSender: &fakeSender{begin: time.Now()}, committed: make(chan struct{}, 1), pending: make(chan struct{}, 1),
		n: &Notifier{config: config, state: tracker{logger: config.Logger, onError: config.OnError}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.n.loop(ctx, b.committed, b.pending, b.fakeSender)
	}()
	b.stop = func() { cancel(); <-done }
	t.Cleanup(b.stop)
	synctest.Wait()
	return b
}

func (b *bench) commit() {
	b.count.Add(1)
	select {
	case b.committed <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// sleep returns when everything that is due has happened.
func (b *bench) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) sent() []int64 {
	var out []int64
	for _, d := range b.see().at {
		out = append(out, d.Milliseconds())
	}
	return out
}

func TestTheFirstCommitIsToldAtOnceAndTheOthersTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Interval: 10 * time.Millisecond})
		assert.Equal(t, []int64{0}, b.sent(), "for what was before")
		b.sleep(100 * time.Millisecond)
		for range 25 {
			b.commit()
			b.sleep(time.Millisecond)
		}
		b.sleep(time.Second)
		assert.Equal(t, []int64{0, 100, 110, 120, 130}, b.sent())
		assert.Equal(t, int64(25), b.see().last, "the last is not lost")
	})
}

func TestACommitWhileSendingIsToldAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Interval: time.Millisecond})
		b.sleep(100 * time.Millisecond)
		b.behave(nil, 20*time.Millisecond)
		b.commit()
		b.commit()
		b.commit()
		b.sleep(time.Second)
		assert.Equal(t, []int64{0, 120, 140}, b.sent())
		assert.Equal(t, int64(3), b.see().last)
	})
}

func TestAWriteWhoseCommitIsNotSeenIsToldForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		b.pending <- struct{}{}
		b.sleep(10 * time.Second)
		at := b.sent()
		assert.Equal(t, []int64{0, 5, 15, 35, 75, 125, 175}, at[:7])
		assert.GreaterOrEqual(t, at[len(at)-1], int64(1000))
		assert.Less(t, at[len(at)-1], int64(1060))
		assert.Len(t, at, 24)
	})
}

func TestManyWritesDoNotPutOffTheNotification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{})
		for range 100 {
			b.pending <- struct{}{}
			synctest.Wait()
			b.sleep(time.Millisecond)
		}
		assert.Greater(t, len(b.see().at), 15)
		assert.LessOrEqual(t, len(b.see().at), 21, "one in 5 ms")
	})
}

func TestAFailedNotificationIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []error
		b := newBench(t, Config{MinBackoff: 100 * time.Millisecond, OnError: func(err error) { told = append(told, err) }})
		gone := errors.New("away")
		b.behave(gone, 0)
		b.commit()
		for range 10_000 {
			b.sleep(time.Millisecond)
			b.commit()
		}
		assert.Len(t, b.see().at, 1)
		assert.Greater(t, b.see().drops, 5)
		assert.Less(t, b.see().drops, 12, "backs off")
		assert.Len(t, told, b.see().drops)
		assert.Equal(t, Status{Err: gone}, b.n.Status())
		b.behave(nil, 0)
		b.sleep(time.Minute)
		assert.Len(t, b.see().at, 2, "one for all")
		assert.Equal(t, b.count.Load(), b.see().last)
		assert.Equal(t, Status{Connected: true, Healthy: true}, b.n.Status())
	})
}

func TestASilentConnectionIsTested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{PingInterval: 10 * time.Second, MinBackoff: time.Second, MaxBackoff: time.Second})
		b.sleep(35 * time.Second)
		assert.Equal(t, 3, b.see().pings)
		assert.Len(t, b.see().at, 1)
		gone := errors.New("gone")
		b.behave(gone, 0)
		b.sleep(5500 * time.Millisecond)
		assert.Positive(t, b.see().drops)
		b.behave(nil, 0)
		b.sleep(2 * time.Second)
		assert.Len(t, b.see().at, 2, "connects again, and tells")
	})
}

func TestStoppingTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]func(*bench) chan struct{}{
		"committed": func(b *bench) chan struct{} { return b.committed },
		"pending":   func(b *bench) chan struct{} { return b.pending },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Config{Interval: time.Hour, Timeout: 3 * time.Second})
			signal(b) <- struct{}{}
			b.stop()
			assert.Len(t, b.see().at, 2, name)
			assert.Equal(t, 3*time.Second, b.see().within, name)
			assert.False(t, b.see().ended, name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Interval: time.Hour})
		b.stop()
		assert.Len(t, b.see().at, 1, "nothing was left")
	})
}

// TestStoppingWithoutAServer does not wait for it.
func TestStoppingWithoutAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{MinBackoff: time.Hour, MaxBackoff: time.Hour})
		b.sleep(time.Second)
		b.behave(errors.New("away"), 0)
		b.commit()
		b.sleep(time.Second)
		b.commit()
		b.stop()
		assert.Equal(t, 2, b.see().attempts, "the first, and one that failed")
	})
}

// TestASignalAtTheVeryStop comes while the loop is busy, so that it finds the signal and the end of its context together and may
// look at either first: hence the repetitions.
func TestASignalAtTheVeryStop(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]func(*bench) chan struct{}{
		"committed": func(b *bench) chan struct{} { return b.committed },
		"pending":   func(b *bench) chan struct{} { return b.pending },
	} {
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{Interval: time.Millisecond})
				b.sleep(time.Second)
				b.behave(nil, time.Minute)
				b.commit() // is told from now on for a minute
				b.count.Add(1)
				signal(b) <- struct{}{}
				b.stop()
				assert.Equal(t, int64(2), b.see().last, name)
			})
		}
	}
}

// TestWhatANotifierHears is for nobody: a pooler may lend it a connection that listens.
func TestWhatANotifierHears(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(testenv.Postgres(t).DSN)
	require.NoError(t, err)
	s := &linkSender{config: Config{Channel: "heard " + uuid.NewString()}.withDefaults(), conn: config}
	defer s.drop(t.Context())
	require.NoError(t, s.send(t.Context()))
	require.NoError(t, s.link.exec(t.Context(), "LISTEN "+pgx.Identifier{s.config.Channel}.Sanitize()))
	for range 3 {
		require.NoError(t, s.send(t.Context()))
	}
	assert.Empty(t, s.link.notes)
}

func TestPayloadsAreIgnored(t *testing.T) {
	t.Parallel()
	l, err := NewListener(Config{Channel: "c"})
	assert.NoError(t, err)
	ch := l.Subscribe()
	l.receive(&pgconn.Notification{Channel: "c", Payload: testPrefix + "of another"})
	l.receive(&pgconn.Notification{Channel: "d"})
	assert.Empty(t, ch)
	l.receive(&pgconn.Notification{Channel: "c"})
	l.receive(&pgconn.Notification{Channel: "c"})
	assert.Len(t, ch, 1)
}
