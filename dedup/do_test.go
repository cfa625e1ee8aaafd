package dedup_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestDo(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{})
		runs := 0
		effectOf := func(id string, result error) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				runs++
				if err := dedup.Tx(ctx).Create(&effect{Consumer: "webhook", MessageID: id}).Error; err != nil {
					return err
				}
				if err := gormoutbox.Append(dedup.Tx(ctx), gormoutbox.Event{Type: "t", Payload: "1"}); err != nil {
					return err
				}
				return result
			}
		}
		duplicate, err := dedup.Do(t.Context(), b.db, "webhook", "1", effectOf("1", errHandler))
		require.ErrorIs(t, err, errHandler)
		assert.False(t, duplicate)
		assert.Zero(t, b.effects(t))
		assert.Panics(t, func() {
			_, _ = dedup.Do(t.Context(), b.db, "webhook", "1", func(context.Context) error { panic("boom") })
		})
		for i := range 3 {
			duplicate, err = dedup.Do(t.Context(), b.db, "webhook", "1", effectOf("1", nil))
			require.NoError(t, err)
			assert.Equal(t, i > 0, duplicate)
		}
		duplicate, err = dedup.Do(t.Context(), b.db, "cron", "1", effectOf("1", nil))
		require.NoError(t, err)
		assert.False(t, duplicate, "another consumer")
		assert.Equal(t, 3, runs)
		assert.EqualValues(t, 2, b.effects(t))
		assert.Len(t, b.outbox(t), 2)
		b.idle(t)

		// The same record as the middleware's.
		d, err := dedup.New(b.db, dedup.Config{Consumer: "webhook"})
		require.NoError(t, err)
		_, err = d.Middleware(consumer(forbidden(t)))(message.NewMessage("1", nil))
		require.NoError(t, err)
		duplicate, err = d.Do(t.Context(), "1", effectOf("1", nil))
		require.NoError(t, err)
		assert.True(t, duplicate)
		assert.Equal(t, dedup.Stats{Duplicates: 2}, d.Stats())
	})
}

// TestDoWithinDo: another id has a transaction of its own, the same one can't be begun.
func TestDoWithinDo(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{Consumer: "webhook"})
	duplicate, err := b.d.Do(t.Context(), "outer", func(ctx context.Context) error {
		_, err := b.d.Do(ctx, "outer", func(context.Context) error { return nil })
		require.ErrorIs(t, err, dedup.ErrNested)
		_, err = b.d.Do(ctx, "inner", func(ctx context.Context) error {
			return dedup.Tx(ctx).Create(&effect{MessageID: "inner"}).Error
		})
		require.NoError(t, err)
		return errHandler
	})
	require.ErrorIs(t, err, errHandler)
	assert.False(t, duplicate)
	assert.EqualValues(t, 1, b.effects(t))
}

func TestDoRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	never := func(context.Context) error { t.Error("it ran"); return nil }
	for _, test := range []struct {
		consumer, id string
		want         error
	}{
		{"", "1", dedup.ErrNoConsumer},
		{"c", "", dedup.ErrNoMessageID},
		{"c", "\x00", dedup.ErrKeyText},
	} {
		_, err := dedup.Do(t.Context(), b.db, test.consumer, test.id, never)
		require.ErrorIs(t, err, test.want)
		key, ok := errors.AsType[*dedup.KeyError](err)
		require.True(t, ok)
		assert.NotEmpty(t, key.Part)
	}
	_, err := dedup.Do(t.Context(), nil, "c", "1", never)
	_, ok := errors.AsType[*dedup.ConfigError](err)
	assert.True(t, ok, "%v", err)
	_, err = dedup.Do(t.Context(), b.db, "\x00", "1", never)
	require.Error(t, err)
	_, err = dedup.Do(t.Context(), b.db, "c", "1", nil)
	_, ok = errors.AsType[*dedup.ConfigError](err)
	assert.True(t, ok, "%v", err)
}

// TestAStuckTwin: the wait for another delivery ends, with an error that says so.
func TestAStuckTwin(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		impatient, err := dedup.New(b.db, dedup.Config{Consumer: "stock", LockTimeout: 50 * time.Millisecond})
		require.NoError(t, err)
		inside, leave := make(chan struct{}), make(chan struct{})
		first := make(chan error, 1)
		go func() {
			first <- b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				close(inside)
				<-leave
				return write(msg)
			})
		}()
		isDone(t, inside, "the first delivery")
		_, err = impatient.Middleware(consumer(forbidden(t)))(message.NewMessage("m1", nil))
		require.ErrorIs(t, err, dedup.ErrBusy)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "routers log nothing for contexts that have ended")
		close(leave)
		require.NoError(t, <-first)
		_, err = impatient.Middleware(consumer(forbidden(t)))(message.NewMessage("m1", nil))
		require.NoError(t, err, "a duplicate now")
		assert.EqualValues(t, 1, b.effects(t))
		b.idle(t)
	})
}

// TestTheLimitIsOfTheWaitOnly: a handler may take longer.
func TestTheLimitIsOfTheWaitOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{LockTimeout: time.Second})
	var runs atomic.Int64
	require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
		runs.Add(1)
		_, limited := msg.Context().Deadline()
		assert.False(t, limited)
		return write(msg)
	}))
	assert.EqualValues(t, 1, runs.Load())
}

// TestOneConsumersName: handlers that share a name share their records, so each message is handled by one of them.
func TestOneConsumersName(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		other, err := dedup.New(b.db, dedup.Config{Consumer: "stock"})
		require.NoError(t, err)
		require.NoError(t, b.deliver(t.Context(), "m1", write))
		_, err = other.Middleware(consumer(forbidden(t)))(message.NewMessage("m1", nil))
		require.NoError(t, err)
		assert.Equal(t, dedup.Stats{Duplicates: 1}, other.Stats())
		assert.EqualValues(t, 1, b.effects(t))
	})
}

// TestDoWithinAnother finds itself also behind one for something else.
func TestDoWithinAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{})
	_, err := b.d.Do(t.Context(), "a", func(ctx context.Context) error {
		_, err := b.d.Do(ctx, "b", func(ctx context.Context) error {
			_, err := b.d.Do(ctx, "a", func(context.Context) error { t.Error("it ran"); return nil })
			return err
		})
		return err
	})
	require.ErrorIs(t, err, dedup.ErrNested)
	assert.Zero(t, b.records(t))
}
