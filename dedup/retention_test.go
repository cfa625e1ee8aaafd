package dedup_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// past is a time of the database so many hours ago, as SQL.
func past(env testenv.Database, hours int) string {
	switch env.Name {
	case "postgres":
		return fmt.Sprintf("clock_timestamp() - interval '%d hours'", hours)
	case "sqlite":
		return fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-%d hours')", hours)
	default:
		return fmt.Sprintf("UTC_TIMESTAMP(6) - INTERVAL %d HOUR", hours)
	}
}

// old writes n records that are so many hours old.
func (b *bundle) old(t *testing.T, n, hours int) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		var values []string
		for i := from; i < min(n, from+500); i++ {
			values = append(values, fmt.Sprintf("('stock', '%d-%d', %s)", hours, i, past(b.env, hours)))
		}
		require.NoError(t, b.db.Exec("INSERT INTO processed_events (consumer, event_id, processed_at) VALUES "+strings.Join(values, ",")).Error)
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Retention: 24 * time.Hour})
		b.old(t, 2100, 25)
		b.old(t, 3, 23)
		n, err := b.d.Purge(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2100, n)
		assert.EqualValues(t, 3, b.records(t))
		n, err = b.d.Purge(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
		// A message of which the record is gone is handled again, one of which it is there is not.
		require.NoError(t, b.deliver(t.Context(), "25-1", write))
		require.NoError(t, b.deliver(t.Context(), "23-1", forbidden(t)))
		assert.EqualValues(t, 1, b.effects(t))

		forever, err := dedup.New(b.db, dedup.Config{Retention: dedup.KeepForever})
		require.NoError(t, err)
		b.old(t, 1, 24*365*50)
		n, err = forever.Purge(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
		byDefault, err := dedup.New(b.db, dedup.Config{})
		require.NoError(t, err)
		b.old(t, 1, 24*29)
		n, err = byDefault.Purge(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, n, "30 days")
		b.idle(t)
	})
}

// TestOneAtATimePurges: while another process removes records there is nothing to do.
func TestOneAtATimePurges(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Retention: time.Hour})
		b.old(t, 1, 2)
		require.NoError(t, b.db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Exec("SELECT version FROM processed_events_schema WHERE version = 1 FOR UPDATE").Error)
			n, err := b.d.Purge(t.Context())
			require.NoError(t, err)
			assert.Zero(t, n)
			return nil
		}))
		n, err := b.d.Purge(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
	})
}

// TestPurgingBesideHandlers: neither disturbs the other.
func TestPurgingBesideHandlers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Retention: time.Hour})
		b.old(t, 3000, 2)
		var purging, handling sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		var removed int64
		purging.Go(func() {
			for ctx.Err() == nil {
				n, err := b.d.Purge(ctx)
				removed += n
				if ctx.Err() == nil && env.Name != "sqlite" { // whose writers may give up waiting for each other
					assert.NoError(t, err)
				}
			}
		})
		for worker := range 4 {
			handling.Go(func() {
				for i := range 50 {
					id := fmt.Sprintf("w%d-%d", worker, i)
					for attempt := 0; b.deliver(t.Context(), id, write) != nil && assert.Less(t, attempt, 100); attempt++ {
					}
				}
			})
		}
		handling.Wait()
		cancel()
		purging.Wait()
		n, err := b.d.Purge(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3000, removed+n)
		assert.EqualValues(t, 200, b.effects(t))
		assert.EqualValues(t, 200, b.records(t))
	})
}

// TestRunComesBackAfterAnother that was removing records, which may have a longer retention and leave what is old here.
func TestRunComesBackAfterAnother(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Retention: time.Hour})
		b.old(t, 1, 2)
		logged := make(chan struct{}, 1000)
		d, err := dedup.New(b.db, dedup.Config{Retention: time.Hour, Logger: slog.New(notify{slog.DiscardHandler, logged})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		require.NoError(t, b.db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Exec("SELECT version FROM processed_events_schema WHERE version = 1 FOR UPDATE").Error)
			go func() { ended <- d.Run(ctx) }()
			isDone(t, logged, "the word that another one is at it")
			return nil
		}))
		assert.Eventually(t, func() bool { return b.records(t) == 0 }, patience, 10*time.Millisecond, "it did not come back")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestTheRouterStartsTheRetention(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{Retention: time.Hour})
	b.old(t, 1, 2)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	router.AddMiddleware(b.d.Middleware)
	router.AddPlugin(b.d.RouterPlugin)
	router.AddPlugin(newByHandler(t, b).RouterPlugin) // of a second one
	result := make(chan error, 1)
	go func() { result <- router.Run(t.Context()) }()
	require.Eventually(t, func() bool {
		var n int64
		return b.db.Table("processed_events").Count(&n).Error == nil && n == 0
	}, patience, 10*time.Millisecond, "the old record is still there")
	require.NoError(t, router.Close())
	require.NoError(t, <-result)

	field := func(err error) string {
		var e *dedup.ConfigError
		require.ErrorAs(t, err, &e)
		return e.Field
	}
	assert.Equal(t, "router", field(b.d.RouterPlugin(nil)))
	without, err := dedup.New(testenv.SQLite(t).Open(t), dedup.Config{})
	require.NoError(t, err)
	router, err = message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	router.AddPlugin(without.RouterPlugin)
	var schema *dedup.SchemaError
	require.ErrorAs(t, router.Run(t.Context()), &schema)
}

// TestRunGoesOnAfterErrors, and ends with its context.
func TestRunGoesOnAfterErrors(t *testing.T) {
	t.Parallel()
	logged := make(chan struct{}, 1)
	g := testenv.SQLite(t).Open(t) // without the tables
	d, err := dedup.New(g, dedup.Config{Logger: slog.New(notify{slog.DiscardHandler, logged})})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	isDone(t, logged, "the error")
	assert.Empty(t, ended)
	cancel()
	require.NoError(t, <-ended)
}

// notify tells of every record.
type notify struct {
	slog.Handler

	records chan<- struct{}
}

func (notify) Enabled(context.Context, slog.Level) bool { return true }
func (n notify) Handle(context.Context, slog.Record) error {
	n.records <- struct{}{}
	return nil
}

func TestForget(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		b.old(t, 1100, 1)
		require.NoError(t, b.db.Exec("INSERT INTO processed_events (consumer, event_id) VALUES ('billing', '1-1')").Error)
		n, err := dedup.Forget(t.Context(), b.db, "stock", "1-1", "unknown", "1-2")
		require.NoError(t, err)
		assert.EqualValues(t, 2, n)
		require.NoError(t, b.deliver(t.Context(), "1-1", write))
		require.NoError(t, b.deliver(t.Context(), "1-3", forbidden(t)))
		assert.EqualValues(t, 1, b.effects(t))

		var ids []string
		for i := range 1100 {
			ids = append(ids, fmt.Sprintf("1-%d", i))
		}
		// In a transaction that is rolled back nothing is forgotten.
		require.ErrorIs(t, b.db.Transaction(func(tx *gorm.DB) error {
			n, err := dedup.Forget(t.Context(), tx, "stock", ids...)
			require.NoError(t, err)
			assert.EqualValues(t, 1099, n, "more than one statement takes")
			return errHandler
		}), errHandler)
		n, err = b.d.Forget(t.Context(), "stock", ids...)
		require.NoError(t, err)
		assert.EqualValues(t, 1099, n)
		assert.EqualValues(t, 1, b.records(t), "that of another consumer")
		n, err = b.d.Forget(t.Context(), "stock")
		require.NoError(t, err)
		assert.Zero(t, n)
		_, err = dedup.Forget(t.Context(), b.db, "", "1")
		require.ErrorIs(t, err, dedup.ErrNoConsumer)
		_, err = dedup.Forget(t.Context(), b.db.Session(&gorm.Session{DryRun: true}), "stock", "1")
		require.Error(t, err)
		_, err = dedup.Forget(t.Context(), nil, "stock", "1")
		require.Error(t, err)
		_, err = dedup.Forget(t.Context(), dedup.Tx(t.Context()), "stock", "1")
		require.Error(t, err)
		b.idle(t)
	})
}
