package dedup_test

import (
	"context"
	"database/sql"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type gormDB = gorm.DB

type testKey struct{}

func TestOldContextIsRestored(t *testing.T) {
	t.Parallel()
	handlers := map[string]func(*message.Message) ([]*message.Message, error){
		"success":  consumer(write),
		"error":    consumer(fails),
		"panic":    func(*message.Message) ([]*message.Message, error) { panic("boom") },
		"goexit":   func(*message.Message) ([]*message.Message, error) { runtime.Goexit(); return nil, nil },
		"produced": func(*message.Message) ([]*message.Message, error) { return message.Messages{{UUID: "p"}}, nil },
		"replaced": func(msg *message.Message) ([]*message.Message, error) {
			ctx, cancel := context.WithCancel(msg.Context())
			msg.SetContext(ctx) // as Watermill's Timeout does
			cancel()
			return nil, nil
		},
	}
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		for name, h := range handlers {
			ctx := context.WithValue(t.Context(), testKey{}, name)
			msg := message.NewMessageWithContext(ctx, name, nil)
			inside := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				assert.Equal(t, name, msg.Context().Value(testKey{}), "values of the old context stay")
				assert.NotEqual(t, ctx, msg.Context())
				return h(msg)
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_, _ = inside(msg)
			}()
			isDone(t, done, name)
			assert.Same(t, ctx, msg.Context(), name)
			require.ErrorIs(t, dedup.Tx(msg.Context()).Error, dedup.ErrNoMiddleware, name)
			b.idle(t)
		}
		// A duplicate too.
		ctx := context.WithValue(t.Context(), testKey{}, "duplicate")
		msg := message.NewMessageWithContext(ctx, "success", nil)
		_, err := b.d.Middleware(consumer(forbidden(t)))(msg)
		require.NoError(t, err)
		assert.Same(t, ctx, msg.Context())
	})
}

func TestCancelledContextAndSuccessCommits(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, b.deliver(ctx, "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			cancel()
			assert.ErrorIs(t, write(msg), context.Canceled, "statements run under the message's context")
			return nil
		}))
		assert.EqualValues(t, 1, b.effects(t))
		assert.EqualValues(t, 1, b.records(t))
		b.idle(t)
		require.NoError(t, b.deliver(t.Context(), "m1", forbidden(t)))
	})
}

func TestCancelledContextAndErrorRollsBack(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		err := b.deliver(ctx, "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			cancel()
			return msg.Context().Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, b.effects(t))
		assert.Zero(t, b.records(t))
		b.idle(t)
		require.NoError(t, b.deliver(t.Context(), "m1", write))
		assert.EqualValues(t, 1, b.effects(t))
	})
}

func TestDoneContextBeginsNothing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, b.deliver(ctx, "m1", forbidden(t)), context.Canceled)
		assert.Zero(t, b.records(t))
		b.idle(t)
	})
}

func TestCommitTimeout(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{CommitTimeout: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		err := b.deliver(ctx, "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			cancel()
			// The transaction ends by itself while the handler hangs.
			tx := dedup.Tx(context.WithoutCancel(msg.Context()))
			assert.Eventually(t, func() bool { return tx.Exec("SELECT 1").Error != nil }, patience, time.Millisecond)
			return nil
		})
		require.ErrorIs(t, err, dedup.ErrCommitTimeout)
		require.NotErrorIs(t, err, context.Canceled, "the router would not log it")
		assert.Zero(t, b.effects(t))
		b.idle(t)
		assert.Zero(t, b.records(t))
	})
}

func TestCancelEndsTheWaitForAConnection(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		b.pool(t).SetMaxOpenConns(1)
		conn, err := b.pool(t).Conn(t.Context())
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- b.deliver(ctx, "m1", forbidden(t)) }()
		require.Eventually(t, func() bool { return b.pool(t).Stats().WaitCount > 0 }, patience, time.Millisecond)
		cancel()
		select {
		case err := <-result:
			require.ErrorIs(t, err, context.Canceled)
		case <-time.After(patience):
			require.FailNow(t, "still waiting for a connection")
		}
		require.NoError(t, conn.Close())
		b.idle(t)
	})
}

func TestKeptTxFails(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		for _, prepare := range []bool{false, true} {
			b := setup(t, env, dedup.Config{}, &gorm.Config{PrepareStmt: prepare})
			var kept *gorm.DB
			var ctx context.Context
			id := map[bool]string{false: "m1", true: "m2"}[prepare]
			require.NoError(t, b.deliver(t.Context(), id, func(msg *message.Message) error {
				ctx = msg.Context()
				kept = dedup.Tx(ctx)
				return kept.Create(&effect{}).Error
			}))
			before := b.effects(t)
			require.ErrorIs(t, kept.Create(&effect{}).Error, sql.ErrTxDone)
			require.ErrorIs(t, dedup.Tx(ctx).Create(&effect{}).Error, sql.ErrTxDone)
			require.ErrorIs(t, dedup.Tx(ctx).Find(&[]effect{}).Error, sql.ErrTxDone)
			assert.Equal(t, before, b.effects(t))
			b.idle(t)
		}
	})
}

func TestTxRunsUnderTheContextItIsGiven(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
		ctx, cancel := context.WithCancel(msg.Context())
		cancel()
		assert.ErrorIs(t, dedup.Tx(ctx).Create(&effect{}).Error, context.Canceled)
		return write(msg)
	}))
	assert.EqualValues(t, 1, b.effects(t))
}
