package dedup_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// run starts a router that consumes "orders" and returns its Pub/Sub and a function that closes it.
func run(t *testing.T, handler message.NoPublishHandlerFunc, middlewares ...message.HandlerMiddleware) (pubSub *gochannel.GoChannel, stop func()) {
	t.Helper()
	pubSub = gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	require.NoError(t, err)
	router.AddMiddleware(middlewares...)
	router.AddConsumerHandler("stock", "orders", pubSub, handler)
	result := make(chan error, 1)
	go func() { result <- router.Run(context.WithoutCancel(t.Context())) }()
	isDone(t, router.Running(), "the router's start")
	stop = func() {
		assert.NoError(t, router.Close())
		assert.NoError(t, <-result)
		assert.NoError(t, pubSub.Close())
	}
	return pubSub, stop
}

// without Config.Consumer, so that the handler's name is used.
func newByHandler(t *testing.T, b *bundle) *dedup.Deduplicator {
	t.Helper()
	d, err := dedup.New(b.db, dedup.Config{})
	require.NoError(t, err)
	return d
}

// TestARenamedHandler knows the messages that it handled under its old name.
func TestARenamedHandler(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{Consumer: "warehouse"})
	require.NoError(t, b.deliver(t.Context(), "m1", write))
	d, err := dedup.New(b.db, dedup.Config{Renamed: map[string]string{"stock": "warehouse", "other": "old"}})
	require.NoError(t, err)
	done := make(chan struct{}, 1)
	watch := func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			defer func() { done <- struct{}{} }()
			return h(msg)
		}
	}
	pubSub, stop := run(t, write, watch, d.Middleware)
	for _, id := range []string{"m1", "m2"} {
		require.NoError(t, pubSub.Publish("orders", message.NewMessage(id, nil)))
		isDone(t, done, "the handler")
	}
	stop()
	assert.Equal(t, dedup.Stats{Committed: 1, Duplicates: 1}, d.Stats())
	var consumers []string
	require.NoError(t, b.db.Raw("SELECT DISTINCT consumer FROM processed_events").Scan(&consumers).Error)
	assert.Equal(t, []string{"warehouse"}, consumers)
}

func TestRouterCloseCommitsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		d := newByHandler(t, b)
		var runs atomic.Int64
		inside := make(chan struct{})
		canceled := make(chan error, 1)
		handler := func(msg *message.Message) error {
			runs.Add(1)
			if err := write(msg); err != nil {
				return err
			}
			close(inside)
			select {
			case <-msg.Context().Done(): // the router closes
				canceled <- msg.Context().Err()
			case <-time.After(patience):
				canceled <- errors.New("the context was not canceled")
			}
			return nil
		}
		msg := message.NewMessage("m1", nil)
		pubSub, stop := run(t, handler, d.Middleware)
		require.NoError(t, pubSub.Publish("orders", msg))
		isDone(t, inside, "the handler")
		stop()
		require.ErrorIs(t, <-canceled, context.Canceled)
		assert.EqualValues(t, 1, b.effects(t))
		assert.Equal(t, dedup.Stats{Committed: 1}, d.Stats())
		var consumer string
		require.NoError(t, b.db.Raw("SELECT consumer FROM processed_events").Scan(&consumer).Error)
		assert.Equal(t, "stock", consumer, "the handler's name")

		// The next process gets the message again.
		handled := make(chan struct{})
		after := func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				defer close(handled)
				return h(msg)
			}
		}
		pubSub, stop = run(t, handler, after, d.Middleware)
		require.NoError(t, pubSub.Publish("orders", message.NewMessage("m1", nil)))
		isDone(t, handled, "the redelivery")
		stop()
		assert.EqualValues(t, 1, runs.Load())
		assert.EqualValues(t, 1, b.effects(t))
		assert.Equal(t, dedup.Stats{Committed: 1, Duplicates: 1}, d.Stats())
		b.idle(t)
	})
}

// The documented order of middlewares, with a handler that fails, times out, panics, then succeeds.
func TestRetryOutside(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		d := newByHandler(t, b)
		poison := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		defer func() { assert.NoError(t, poison.Close()) }()
		poisonQueue, err := middleware.PoisonQueue(poison, "poison")
		require.NoError(t, err)

		var runs atomic.Int64
		done := make(chan struct{})
		handler := func(msg *message.Message) error {
			if err := write(msg); err != nil {
				return err
			}
			switch runs.Add(1) {
			case 1:
				return errHandler
			case 2:
				<-msg.Context().Done()
				return msg.Context().Err()
			case 3:
				panic("boom")
			}
			close(done)
			return nil
		}
		pubSub, stop := run(t, handler,
			poisonQueue,
			middleware.Retry{MaxRetries: 5, InitialInterval: time.Millisecond, ResetContextOnRetry: true}.Middleware,
			middleware.Timeout(2*time.Second),
			d.Middleware,
			middleware.CorrelationID,
			middleware.Recoverer,
		)
		require.NoError(t, pubSub.Publish("orders", message.NewMessage("m1", nil)))
		isDone(t, done, "the successful run")
		stop()
		assert.EqualValues(t, 4, runs.Load())
		assert.EqualValues(t, 1, b.effects(t))
		assert.Equal(t, dedup.Stats{Committed: 1, Failed: 3}, d.Stats())
		b.idle(t)
	})
}

// What doc.go says of PoisonQueue: outside, the failed message is not recorded.
func TestPoisonQueueOutsideRecordsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	poison := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	defer func() { assert.NoError(t, poison.Close()) }()
	poisoned, err := poison.Subscribe(t.Context(), "poison")
	require.NoError(t, err)
	poisonQueue, err := middleware.PoisonQueue(poison, "poison")
	require.NoError(t, err)

	pubSub, stop := run(t, fails, poisonQueue, newByHandler(t, b).Middleware)
	require.NoError(t, pubSub.Publish("orders", message.NewMessage("m1", nil)))
	select {
	case msg := <-poisoned:
		msg.Ack()
		assert.Equal(t, "m1", msg.UUID)
	case <-time.After(patience):
		require.FailNow(t, "nothing poisoned")
	}
	stop()
	assert.Zero(t, b.records(t))
	assert.Zero(t, b.effects(t))
}

// A gochannel redelivers at once what was nacked.
func TestNackedMessageRunsAgain(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		d := newByHandler(t, b)
		var runs atomic.Int64
		done := make(chan struct{})
		pubSub, stop := run(t, func(msg *message.Message) error {
			if runs.Add(1) == 1 {
				return fails(msg)
			}
			defer close(done)
			return write(msg)
		}, d.Middleware)
		require.NoError(t, pubSub.Publish("orders", message.NewMessage("m1", nil)))
		isDone(t, done, "the second run")
		stop()
		assert.EqualValues(t, 2, runs.Load())
		assert.EqualValues(t, 1, b.effects(t))
	})
}
