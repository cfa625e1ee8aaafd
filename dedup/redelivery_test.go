package dedup_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/internal/testenv"
)

var errHandler = errors.New("handler failed")

// fails returns a handler that writes and then fails.
func fails(msg *message.Message) error { return errors.Join(write(msg), errHandler) }

func TestFailedHandlerRunsAgain(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})

		failure := errors.Join(errHandler) // a value of its own
		err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			return failure
		})
		b.returned(t)
		assert.Same(t, failure, err, "the handler's error comes back as it is")
		assert.Zero(t, b.effects(t))
		assert.Zero(t, b.records(t))
		b.returned(t)

		require.NoError(t, b.deliver(t.Context(), "m1", write))
		assert.EqualValues(t, 1, b.effects(t))
		assert.EqualValues(t, 1, b.records(t))
		assert.Equal(t, dedup.Stats{Committed: 1, Failed: 1}, b.d.Stats())
		b.returned(t)
	})
}

func TestDuplicateIsAckedWithoutRunning(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var log bytes.Buffer
		b := setup(t, env, dedup.Config{
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		require.NoError(t, b.deliver(t.Context(), "m1", write))
		for range 3 {
			require.NoError(t, b.deliver(t.Context(), "m1", forbidden(t)))
		}
		assert.EqualValues(t, 1, b.effects(t))
		assert.Equal(t, dedup.Stats{Committed: 1, Duplicates: 3}, b.d.Stats())
		assert.Contains(t, log.String(), `level=DEBUG msg="duplicate message skipped" consumer=stock message_id=m1`)
		assert.NotContains(t, log.String(), "secret")
		b.returned(t)
	})
}

func TestConsumersAreIndependent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		other, err := dedup.New(b.db, dedup.Config{Consumer: "billing"})
		require.NoError(t, err)

		require.NoError(t, b.deliver(t.Context(), "m1", write))
		_, err = other.Middleware(consumer(write))(message.NewMessage("m1", nil))
		require.NoError(t, err)
		_, err = other.Middleware(consumer(forbidden(t)))(message.NewMessage("m1", nil))
		require.NoError(t, err)
		assert.EqualValues(t, 2, b.effects(t))
	})
}

func TestRecordAndEffectAreOneCommit(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		outside := &bundle{env: env, db: env.Open(t)}

		require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			var n int64
			require.NoError(t, dedup.Tx(msg.Context()).Table("processed_events").Count(&n).Error)
			assert.EqualValues(t, 1, n, "the record is inserted before the handler runs")
			assert.Zero(t, outside.records(t), "committed too early")
			assert.Zero(t, outside.effects(t), "committed too early")
			return nil
		}))
		assert.EqualValues(t, 1, outside.records(t))
		assert.EqualValues(t, 1, outside.effects(t))

		d, err := dialect.For(b.db)
		require.NoError(t, err)
		var n int64
		require.NoError(t, b.db.Raw("SELECT count(*) FROM processed_events WHERE consumer = 'stock' AND event_id = 'm1' AND processed_at BETWEEN "+
			d.NowPlus(-time.Minute)+" AND "+d.NowPlus(time.Second)).Scan(&n).Error)
		assert.EqualValues(t, 1, n, "processed_at is the database's time")
	})
}

func TestSavepointsInHandler(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			tx := dedup.Tx(msg.Context())
			inner := tx.Transaction(func(tx *gormDB) error {
				require.NoError(t, tx.Create(&effect{MessageID: "inner"}).Error)
				return errHandler
			})
			assert.ErrorIs(t, inner, errHandler)
			return tx.Create(&effect{MessageID: "outer"}).Error
		}))
		var ids []string
		require.NoError(t, b.db.Model(&effect{}).Pluck("message_id", &ids).Error)
		assert.Equal(t, []string{"outer"}, ids)
	})
}
