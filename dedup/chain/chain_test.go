package chain_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
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

// poisonPublisher is the one of docs/consumers.md.
func poisonPublisher(t *testing.T, db *gorm.DB) message.Publisher {
	t.Helper()
	require.NoError(t, db.Use(gormoutbox.New(gormoutbox.Config{Logger: slog.New(slog.DiscardHandler)})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), db))
	poison, err := watermilladapter.NewPublisher(db, watermilladapter.PublisherConfig{OwnTransaction: true})
	require.NoError(t, err)
	return poison
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
		poison := poisonPublisher(t, db)
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

// clientTimeout is like the error of an http.Client whose Timeout is over.
type clientTimeout struct{}

func (clientTimeout) Error() string        { return "context deadline exceeded (Client.Timeout exceeded)" }
func (clientTimeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (clientTimeout) Timeout() bool        { return true }

// TestPoisonThatTheOutboxRefuses is often poison for the same reason. It goes there all the same.
func TestPoisonThatTheOutboxRefuses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db, d := open(t, env)
		poison := poisonPublisher(t, db)
		failures := []error{errHandler, errors.New("\xff and \x00")}
		messages := []*message.Message{
			message.NewMessage("", nil), message.NewMessage("\xff\xfe", nil), message.NewMessage("a\x00b", nil), message.NewMessage(strings.Repeat("x", 256), nil),
		}
		for name, value := range map[string]string{
			"x": "\xff", "aggregate_type": "half", "name": strings.Repeat("x", 256), "_watermill_delayed_until": "soon", "\xff": "y", "event_version": strings.Repeat("9", 300),
		} {
			msg := message.NewMessage(name, []byte("payload"))
			msg.Metadata.Set(name, value)
			messages = append(messages, msg)
		}
		answers := make(chan error, 1)
		var failure atomic.Int64
		pubSub := start(t, func(r *message.Router) error {
			return chain.Install(r, d, chain.Config{
				Metrics: func(h message.HandlerFunc) message.HandlerFunc {
					return func(msg *message.Message) ([]*message.Message, error) {
						_, err := h(msg)
						answers <- err
						return nil, nil //nolint:nilnil // or it would come again
					}
				},
				PoisonPublisher: poison, PoisonTopic: "poison", Retry: &middleware.Retry{},
			})
		}, func(*message.Message) error { return failures[failure.Load()] })
		for i := range failures {
			failure.Store(int64(i))
			for _, msg := range messages {
				require.NoError(t, pubSub.Publish("orders", msg.Copy()))
				select {
				case err := <-answers:
					require.NoError(t, err, "%q %v", msg.UUID, msg.Metadata)
				case <-time.After(patience):
					require.Fail(t, "not handled")
				}
			}
		}
		assert.EqualValues(t, len(failures)*len(messages), count(t, db, "outbox_events"))
		assert.Zero(t, count(t, db, "processed_events"))
		var headers []string
		require.NoError(t, db.Raw("SELECT headers FROM outbox_events").Scan(&headers).Error)
		all := strings.Join(headers, "\n")
		for _, want := range []string{`"poisoned_uuid":"\"\\xff\\xfe\""`, `"poisoned_aggregate_type":"half"`, `"x":"\"\\xff\""`, `"poisoned__watermill_delayed_until":"soon"`} {
			assert.Contains(t, all, want)
		}
	})
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
		&url.Error{Op: "Get", Err: context.DeadlineExceeded}: true, // by the context of the message
		&url.Error{Op: "Get", Err: clientTimeout{}}:          false,
		errors.Join(errHandler, os.ErrDeadlineExceeded):      false,
	} {
		assert.Equal(t, want, chain.IsPoison(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
}
