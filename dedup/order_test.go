package dedup_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// plain hides which middleware it is, as one of the user's own around it would.
func plain(m message.HandlerMiddleware) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		inner := m(h)
		return func(msg *message.Message) ([]*message.Message, error) { return inner(msg) }
	}
}

func poisonQueue(t *testing.T) message.HandlerMiddleware {
	t.Helper()
	queue := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	t.Cleanup(func() { assert.NoError(t, queue.Close()) })
	m, err := middleware.PoisonQueue(queue, "poison")
	require.NoError(t, err)
	return m
}

// keys is a repository for Watermill's Deduplicator; its own never ends its goroutine.
type keys struct{ seen sync.Map }

func (k *keys) IsDuplicate(_ context.Context, key string) (bool, error) {
	_, seen := k.seen.LoadOrStore(key, true)
	return seen, nil
}

func watermillDeduplicator() message.HandlerMiddleware {
	return (&middleware.Deduplicator{KeyFactory: func(msg *message.Message) (string, error) { return msg.UUID, nil }, Repository: &keys{}}).Middleware
}

// TestHarmInside shows for each middleware that must not stand inside what it does there, and that it is refused.
func TestHarmInside(t *testing.T) {
	t.Parallel()
	ignore := middleware.NewIgnoreErrors([]error{errHandler})
	tests := map[string]struct {
		middleware message.HandlerMiddleware
		// effects and records are what is left of a message whose handler writes and fails at first, if nobody refuses.
		effects, records int64
		told             bool // even if it can't be recognised
	}{
		"PoisonQueue":  {poisonQueue(t), 1, 1, true},                              // half done, and never again
		"IgnoreErrors": {ignore.Middleware, 1, 1, false},                          // the same
		"Retry":        {middleware.Retry{MaxRetries: 1}.Middleware, 2, 1, false}, // what the first attempt wrote, too
		"Duplicator":   {middleware.Duplicator, 2, 1, false},                      // twice; the handler does not fail here
		"Deduplicator": {watermillDeduplicator(), 0, 1, false},                    // at the second delivery: recorded, and not handled
		"InstantAck":   {middleware.InstantAck, 0, 0, false},                      // acked, and not handled
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, testenv.SQLite(t), dedup.Config{})
			deliver := func(d *dedup.Deduplicator, m message.HandlerMiddleware, id string) error {
				runs := 0
				h := d.Middleware(m(consumer(func(msg *message.Message) error {
					runs++
					require.NoError(t, write(msg))
					if runs == 1 && name != "Duplicator" {
						return errHandler
					}
					return nil
				})))
				_, err := h(message.NewMessage(id, nil))
				if name == "Deduplicator" {
					require.ErrorIs(t, err, errHandler)
					_, err = h(message.NewMessage(id, nil))
				}
				return err
			}
			lax, err := dedup.New(b.db, dedup.Config{Consumer: "stock", AnyOrder: true, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			_ = deliver(lax, plain(test.middleware), "damage")
			assert.Equal(t, test.effects, b.effects(t), "the damage")
			assert.Equal(t, test.records, b.records(t))
			require.NoError(t, b.db.Exec("DELETE FROM effects").Error)
			require.NoError(t, b.db.Exec("DELETE FROM processed_events").Error)

			_, err = b.d.Middleware(test.middleware(consumer(forbidden(t))))(message.NewMessage("m", nil))
			e, ok := errors.AsType[*dedup.OrderError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, name, e.Middleware)
			assert.Contains(t, e.Error(), "inside of dedup")
			assert.Zero(t, b.records(t))
			if test.told {
				_, ok = errors.AsType[*dedup.OrderError](deliver(b.d, plain(test.middleware), "deeper"))
				assert.True(t, ok)
				assert.Zero(t, b.effects(t))
				assert.Zero(t, b.records(t))
			}
		})
	}
}

// TestRetryInsideWithSavepoints is the one use of Retry inside that works, on every database.
func TestRetryInsideWithSavepoints(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{AnyOrder: true})
		runs := 0
		_, err := b.d.Middleware(middleware.Retry{MaxRetries: 2}.Middleware(consumer(func(msg *message.Message) error {
			return dedup.Tx(msg.Context()).Transaction(func(tx *gorm.DB) error {
				runs++
				require.NoError(t, tx.Create(&effect{MessageID: msg.UUID}).Error)
				if runs < 3 {
					return tx.Exec("SELECT nonsense").Error
				}
				return nil
			})
		})))(message.NewMessage("m", nil))
		require.NoError(t, err)
		assert.EqualValues(t, 1, b.effects(t))
	})
}

// TestRetryOutsideNeedsItsContext: without ResetContextOnRetry every attempt behind one that timed out begins with a dead context.
func TestRetryOutsideNeedsItsContext(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		b := setup(t, testenv.SQLite(t), dedup.Config{})
		runs := 0
		h := middleware.Retry{MaxRetries: 3, ResetContextOnRetry: reset}.Middleware(middleware.Timeout(20 * time.Millisecond)(b.d.Middleware(consumer(func(msg *message.Message) error {
			if runs++; runs == 1 {
				<-msg.Context().Done()
				return msg.Context().Err()
			}
			return write(msg)
		}))))
		_, err := h(message.NewMessage("m", nil))
		if reset {
			require.NoError(t, err)
			assert.Equal(t, 2, runs)
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "ResetContextOnRetry")
		assert.Equal(t, 1, runs, "the damage: the handler was not tried again")
	}
}

// TestMiddlewaresThatAreInlined: where the compiler puts a middleware into its caller, its function has the caller's name.
func TestMiddlewaresThatAreInlined(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	ignore := middleware.NewIgnoreErrors([]error{errHandler})
	for name, h := range map[string]message.HandlerFunc{
		"IgnoreErrors": ignore.Middleware(consumer(fails)),
		"Retry":        middleware.Retry{MaxRetries: 1}.Middleware(consumer(fails)),
		"Duplicator":   middleware.Duplicator(consumer(fails)),
		"InstantAck":   middleware.InstantAck(consumer(fails)),
	} {
		_, err := b.d.Middleware(h)(message.NewMessage("m", nil))
		var e *dedup.OrderError
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, name, e.Middleware)
	}
	assert.Zero(t, b.effects(t))
	// Others of that folder do no harm, and neither does a middleware of one's own.
	_, err := b.d.Middleware(middleware.CorrelationID(func(*message.Message) ([]*message.Message, error) { return nil, nil }))(message.NewMessage("m", nil))
	require.NoError(t, err)
}

// TestAPoisonQueueInsideIsSeenEachTime: also if the message has its reason from before, of an earlier attempt or of the poison queue it comes from.
func TestAPoisonQueueInsideIsSeenEachTime(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	queue := poisonQueue(t)
	h := middleware.Retry{MaxRetries: 2}.Middleware(b.d.Middleware(plain(queue)(consumer(fails))))
	msg := message.NewMessage("m", nil)
	for range 2 {
		_, err := h(msg)
		var e *dedup.OrderError
		require.ErrorAs(t, err, &e)
	}
	assert.Zero(t, b.effects(t))
	assert.Zero(t, b.records(t))
	assert.Equal(t, errHandler.Error(), msg.Metadata.Get("reason_poisoned"))
	// One that comes from there and is handled is handled.
	_, err := b.d.Middleware(plain(queue)(consumer(write)))(msg)
	require.NoError(t, err)
	assert.EqualValues(t, 1, b.effects(t))
}

// TestEarlyAcks are told of, and the message is handled, since nobody else will.
func TestEarlyAcks(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]message.HandlerFunc{
		"by InstantAck outside": nil,
		"by the handler": func(msg *message.Message) ([]*message.Message, error) {
			msg.Ack()
			return nil, write(msg)
		},
	} {
		var log strings.Builder
		b := setup(t, testenv.SQLite(t), dedup.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
		h := middleware.InstantAck(b.d.Middleware(consumer(write)))
		if handler != nil {
			h = b.d.Middleware(handler)
		}
		for _, id := range []string{"1", "2"} {
			_, err := h(message.NewMessage(id, nil))
			require.NoError(t, err)
		}
		assert.EqualValues(t, 2, b.effects(t), name)
		assert.Equal(t, 1, strings.Count(log.String(), "acked before"), name)
	}
	// A subscriber that ends the context of what is acked, so that the handler fails: nobody else says why the message is lost.
	var log strings.Builder
	b := setup(t, testenv.SQLite(t), dedup.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.ErrorIs(t, b.deliver(t.Context(), "1", func(msg *message.Message) error {
		msg.Ack()
		ctx, cancel := context.WithCancel(msg.Context())
		cancel()
		return dedup.Tx(ctx).Create(&effect{}).Error
	}), context.Canceled)
	assert.Equal(t, 1, strings.Count(log.String(), "acked before"))
}

// TestCheckOrder: what stands where when a router starts, of the router's middlewares and of the handlers'.
func TestCheckOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	queue, retry := poisonQueue(t), middleware.Retry{}.Middleware
	tests := map[string]struct {
		outer, inner []message.HandlerMiddleware // of the router
		own          []message.HandlerMiddleware // of the handler "stock", added first
		want         []string
	}{
		"as it should be":    {outer: []message.HandlerMiddleware{queue, retry, middleware.Timeout(time.Second)}, inner: []message.HandlerMiddleware{middleware.CorrelationID, middleware.Recoverer}},
		"Duplicator outside": {outer: []message.HandlerMiddleware{middleware.Duplicator}},
		"inside": {
			inner: []message.HandlerMiddleware{middleware.Recoverer, queue, retry, middleware.Duplicator, middleware.NewIgnoreErrors(nil).Middleware},
			want:  []string{"PoisonQueue", "Retry", "Duplicator", "IgnoreErrors"},
		},
		"outside": {outer: []message.HandlerMiddleware{middleware.InstantAck, watermillDeduplicator()}, want: []string{"InstantAck", "Deduplicator"}},
		// A handler's own that was added first stands outside of the router's.
		"the handler's first": {own: []message.HandlerMiddleware{middleware.InstantAck}, want: []string{"InstantAck"}},
		"twice":               {own: []message.HandlerMiddleware{b.d.Middleware}, want: []string{"dedup"}},
		"the chain twice": {
			outer: []message.HandlerMiddleware{queue, retry}, inner: []message.HandlerMiddleware{middleware.Recoverer, queue, retry, b.d.Middleware}, want: []string{"dedup"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pubSub := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
			router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
			require.NoError(t, err)
			router.AddConsumerHandler("stock", "orders", pubSub, func(*message.Message) error { return nil }).AddMiddleware(test.own...)
			router.AddMiddleware(test.outer...)
			router.AddMiddleware(b.d.Middleware)
			router.AddMiddleware(test.inner...)
			err = dedup.CheckOrder(router)
			var got []string
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				for _, one := range joined.Unwrap() {
					e, ok := errors.AsType[*dedup.OrderError](one)
					require.True(t, ok)
					assert.Equal(t, "stock", e.Handler)
					got = append(got, e.Middleware)
				}
			}
			assert.Equal(t, test.want, got, "%v", err)
			if test.want == nil {
				return
			}
			router.AddPlugin(b.d.RouterPlugin)
			var e *dedup.OrderError
			require.ErrorAs(t, router.Run(t.Context()), &e, "the router does not start")
		})
	}
	require.NoError(t, dedup.CheckOrder(nil))
}

// TestDuplicatorOutside and 64 deliveries at once: once.
func TestDuplicatorOutside(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		if env.Name == "sqlite" {
			b.pool(t).SetMaxOpenConns(1)
		}
		var runs atomic.Int64
		h := middleware.Duplicator(b.d.Middleware(consumer(func(msg *message.Message) error {
			runs.Add(1)
			return write(msg)
		})))
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				_, err := h(message.NewMessage("m", nil))
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, runs.Load())
		assert.EqualValues(t, 1, b.effects(t))
		assert.Equal(t, dedup.Stats{Committed: 1, Duplicates: 127}, b.d.Stats())
	})
}
