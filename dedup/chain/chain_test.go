package chain_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/chain"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

var errHandler = errors.New("the handler failed")

type effect struct {
	ID        int64
	MessageID string
}

func open(t *testing.T, env testenv.Database) (*gorm.DB, *dedup.Deduplicator) {
	t.Helper()
	db := env.Open(t)
	require.NoError(t, dedup.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&effect{}))
	d, err := dedup.New(db, dedup.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return db, d
}

func count(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	require.NoError(t, db.Table(table).Count(&n).Error)
	return n
}

// start runs a router and returns its Pub/Sub.
func start(t *testing.T, install func(r *message.Router) error, handler message.NoPublishHandlerFunc) *gochannel.GoChannel {
	t.Helper()
	pubSub := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	require.NoError(t, err)
	require.NoError(t, install(router))
	router.AddConsumerHandler("stock", "orders", pubSub, handler)
	result := make(chan error, 1)
	go func() { result <- router.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		assert.NoError(t, router.Close())
		assert.NoError(t, <-result)
		assert.NoError(t, pubSub.Close())
	})
	<-router.Running()
	return pubSub
}

// TestTheChain: a handler that fails, hangs, panics and then succeeds has its effect once; one that never succeeds goes to the poison queue, without a record.
func TestTheChain(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db, d := open(t, env)
		require.NoError(t, db.Use(gormoutbox.New(gormoutbox.Config{Logger: slog.New(slog.DiscardHandler)})))
		require.NoError(t, gormoutbox.Migrate(t.Context(), db))
		poison, err := watermilladapter.NewPublisher(db, watermilladapter.PublisherConfig{OwnTransaction: true})
		require.NoError(t, err)
		var runs, measured atomic.Int64
		done := make(chan string, 100)
		pubSub := start(t, func(r *message.Router) error {
			return chain.Install(r, d, chain.Config{
				Metrics: func(h message.HandlerFunc) message.HandlerFunc {
					return func(msg *message.Message) ([]*message.Message, error) {
						defer func() { done <- msg.UUID }()
						measured.Add(1)
						return h(msg)
					}
				},
				PoisonPublisher: poison, PoisonTopic: "poison", Timeout: time.Second,
				Retry: &middleware.Retry{MaxRetries: 4, InitialInterval: time.Millisecond},
			})
		}, func(msg *message.Message) error {
			if err := dedup.Tx(msg.Context()).Create(&effect{MessageID: msg.UUID}).Error; err != nil {
				return err
			}
			switch n := runs.Add(1); {
			case msg.UUID == "poison" || n == 1:
				return errHandler
			case n == 2:
				<-msg.Context().Done()
				return msg.Context().Err()
			case n == 3:
				panic("boom")
			}
			return nil
		})
		for i, id := range []string{"good", "good", "poison"} {
			require.NoError(t, pubSub.Publish("orders", message.NewMessage(id, nil)))
			select {
			case <-done:
			case <-time.After(patience):
				require.Fail(t, "not handled", "%d", i)
			}
		}
		assert.EqualValues(t, 4+5, runs.Load())
		assert.EqualValues(t, 3, measured.Load())
		assert.EqualValues(t, 1, count(t, db, "effects"))
		assert.EqualValues(t, 1, count(t, db, "processed_events"), "none of the poison")
		var topic, headers string
		require.NoError(t, db.Raw("SELECT topic, headers FROM outbox_events").Row().Scan(&topic, &headers))
		assert.Equal(t, "poison", topic)
		assert.Contains(t, headers, `"reason_poisoned":"the handler failed"`)
		assert.Contains(t, headers, `"origin_id":"poison"`)
	})
}

// TestAnOutageUsesUpNoAttempts: what goes wrong before the handler runs does not count as its failure.
func TestAnOutageUsesUpNoAttempts(t *testing.T) {
	t.Parallel()
	db, d := open(t, testenv.SQLite(t))
	poisoned := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	t.Cleanup(func() { assert.NoError(t, poisoned.Close()) })
	var runs, outages atomic.Int64
	done := make(chan error, 100)
	pubSub := start(t, func(r *message.Router) error {
		err := chain.Install(r, d, chain.Config{
			Metrics: func(h message.HandlerFunc) message.HandlerFunc {
				return func(msg *message.Message) ([]*message.Message, error) {
					produced, err := h(msg)
					done <- err
					return produced, err
				}
			},
			PoisonPublisher: poisoned, PoisonTopic: "poison", Retry: &middleware.Retry{MaxRetries: 2, InitialInterval: time.Millisecond},
		})
		// Stands inside of dedup, where the loss of a connection is found, too.
		r.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if outages.Add(-1) >= 0 {
					return nil, fmt.Errorf("for now: %w", dedup.ErrDatabase)
				}
				return h(msg)
			}
		})
		return err
	}, func(msg *message.Message) error {
		if n := runs.Add(1); n < 3 {
			outages.Store(2) // before the next attempt
			return errHandler
		}
		return dedup.Tx(msg.Context()).Create(&effect{MessageID: msg.UUID}).Error
	})
	outages.Store(2)
	require.NoError(t, pubSub.Publish("orders", message.NewMessage("good", nil)))
	require.NoError(t, receive(t, done))
	assert.EqualValues(t, 3, runs.Load())
	assert.EqualValues(t, 1, count(t, db, "effects"))

	outages.Store(3 * 2)
	require.NoError(t, pubSub.Publish("orders", message.NewMessage("later", nil)))
	require.ErrorIs(t, receive(t, done), dedup.ErrDatabase, "nacked")
	require.ErrorIs(t, receive(t, done), dedup.ErrDatabase, "nacked again")
	require.NoError(t, receive(t, done))
	assert.EqualValues(t, 2, count(t, db, "effects"))
}

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.Fail(t, "nothing came")
	}
	return v
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	_, d := open(t, testenv.SQLite(t))
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	fields := func(err error) (all []string) {
		joined, ok := err.(interface{ Unwrap() []error })
		require.True(t, ok)
		for _, one := range joined.Unwrap() {
			e, ok := errors.AsType[*chain.ConfigError](one)
			require.True(t, ok)
			assert.NotEmpty(t, e.Cure)
			all = append(all, e.Field)
		}
		return all
	}
	assert.Equal(t, []string{"router", "d", "PoisonTopic", "Timeout", "Retry"},
		fields(chain.Install(nil, nil, chain.Config{PoisonTopic: "x", Timeout: -1, Retry: &middleware.Retry{MaxRetries: -1}})))
	assert.Equal(t, []string{"PoisonTopic"}, fields(chain.Install(router, d, chain.Config{PoisonPublisher: gochannel.NewGoChannel(gochannel.Config{}, nil)})))
	require.NoError(t, chain.Install(router, d, chain.Config{Timeout: chain.NoLimit}))
}

func TestIsPoison(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		errHandler:                            true,
		context.DeadlineExceeded:              true, // a handler that always takes too long
		context.Canceled:                      false,
		dedup.ErrBusy:                         false,
		dedup.ErrDatabase:                     false,
		driver.ErrBadConn:                     false,
		&net.OpError{Err: errHandler}:         false,
		&dedup.OrderError{}:                   false,
		&dedup.GapError{}:                     false,
		&dedup.SequenceError{Err: errHandler}: true,
		dedup.ErrNoMessageID:                  true,
	} {
		assert.Equal(t, want, chain.IsPoison(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
}
