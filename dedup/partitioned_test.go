package dedup_test

import (
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// partition has the records in PostgreSQL partitions, as docs/postgres_partitions_dedup.sql has it.
func (b *bundle) partition(t *testing.T) {
	t.Helper()
	script, err := os.ReadFile("../docs/postgres_partitions_dedup.sql")
	require.NoError(t, err)
	testenv.RunScript(t, b.db, string(script))
}

// v7 is the id of a message that was made then.
func v7(t *testing.T, made time.Time) string {
	t.Helper()
	id, err := uuid.NewV7()
	require.NoError(t, err)
	ms := made.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}

func (b *bundle) call(t *testing.T, query string, args ...any) (out sql.NullString) {
	t.Helper()
	require.NoError(t, b.db.Raw(query, args...).Row().Scan(&out))
	return out
}

func (b *bundle) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	require.NoError(t, b.db.Exec(query, args...).Error)
}

const day = 24 * time.Hour

// TestPartitionedRecords takes records that are in use through the option.
func TestPartitionedRecords(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Retention: 60 * day})
		now := time.Now()
		ids := []string{
			v7(t, now), v7(t, now.Add(-40*day)), v7(t, now.Add(10*day)), v7(t, now.Add(20*365*day)),
			uuid.NewString(), "01 is no UUID", "0", "02", "order-17", "ÿ", v7(t, time.Unix(0, 0)),
		}
		for _, id := range ids {
			require.NoError(t, b.deliver(t.Context(), id, write), id)
		}
		b.partition(t)
		require.NoError(t, dedup.CheckTable(t.Context(), b.db, "processed_events"))
		require.NoError(t, dedup.Migrate(t.Context(), b.db), "again")
		for _, id := range ids {
			require.NoError(t, b.deliver(t.Context(), id, forbidden(t)), id)
		}
		for _, at := range []time.Duration{-100 * day, 0, 5 * day, 30 * day, 100 * day} {
			id := v7(t, now.Add(at))
			require.NoError(t, b.deliver(t.Context(), id, write))
			require.NoError(t, b.deliver(t.Context(), id, forbidden(t)))
			ids = append(ids, id)
		}
		assert.EqualValues(t, len(ids), b.effects(t))
		assert.EqualValues(t, len(ids), b.records(t))
		assert.EqualValues(t, 5, b.count(t, "processed_events_ranges"))
		assert.EqualValues(t, 3, b.count(t, b.call(t, "SELECT name FROM processed_events_ranges LIMIT 1").String), "two of now and one in five days")

		b.exec(t, "UPDATE processed_events SET processed_at = processed_at - interval '61 days' WHERE event_id <> ?", ids[0])
		removed, err := b.d.Purge(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, len(ids)-1, removed)
		require.NoError(t, b.deliver(t.Context(), ids[0], forbidden(t)))
		n, err := dedup.Forget(t.Context(), b.db, "stock", ids[0])
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		require.NoError(t, b.deliver(t.Context(), ids[0], write))
	})
}

// TestOnceInPartitions: one of many deliveries at the same time has an effect, wherever the id belongs.
func TestOnceInPartitions(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		b.partition(t)
		for i, id := range []string{v7(t, time.Now()), v7(t, time.Now().Add(-99*day)), uuid.NewString()} {
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() { assert.NoError(t, b.deliver(t.Context(), id, write)) })
			}
			wg.Wait()
			assert.EqualValues(t, i+1, b.effects(t))
		}
	})
}

// TestDroppingRanges: what is dropped is old in both senses, and nothing that a handler has just written.
func TestDroppingRanges(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, env testenv.Database) {
		env.DSN += "&application_name=" + env.Name + t.Name() // of this test alone, to see what waits
		b := setup(t, env, dedup.Config{})
		b.partition(t)
		ranges := func() (names []string) {
			t.Helper()
			require.NoError(t, b.db.Raw("SELECT name FROM processed_events_ranges").Scan(&names).Error)
			return names
		}
		all := ranges()
		assert.False(t, b.call(t, "SELECT processed_events_drop(interval '1 day')").Valid, "none is over")

		// The first range becomes one of long ago, by moving its bounds.
		past := time.Now().Add(-50 * day).UTC()
		lower, upper := past.Add(-7*day), past
		b.exec(t, fmt.Sprintf("ALTER TABLE processed_events_dated DETACH PARTITION %s", all[0]))
		b.exec(t, fmt.Sprintf("ALTER TABLE processed_events_dated ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", all[0],
			b.call(t, "SELECT processed_events_bound(?)", lower).String, b.call(t, "SELECT processed_events_bound(?)", upper).String))
		late := v7(t, past.Add(-day))
		require.NoError(t, b.deliver(t.Context(), late, write))
		assert.False(t, b.call(t, "SELECT processed_events_drop()").Valid, "a message of it was handled today")
		require.NoError(t, b.deliver(t.Context(), late, forbidden(t)))
		b.exec(t, "UPDATE processed_events SET processed_at = processed_at - interval '31 days' WHERE event_id = ?", late)

		// A handler is at work on another message of that range: it is waited for, not for long, and nothing is lost.
		other := v7(t, past.Add(-2*day))
		var dropped error
		require.NoError(t, b.db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec("INSERT INTO processed_events (consumer, event_id) VALUES ('stock', ?)", other).Error; err != nil {
				return err
			}
			dropped = b.db.Exec("SELECT processed_events_drop()").Error
			return nil
		}))
		var pg *pgconn.PgError
		require.ErrorAs(t, dropped, &pg)
		assert.Equal(t, "55P03", pg.Code, "lock_not_available")
		require.NoError(t, b.deliver(t.Context(), other, forbidden(t)))
		assert.False(t, b.call(t, "SELECT processed_events_drop()").Valid, "its record is young")

		// The same, and the handler commits while the range is about to be dropped.
		b.exec(t, "DELETE FROM processed_events WHERE event_id = ?", other)
		result := make(chan string, 1)
		require.NoError(t, b.db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec("INSERT INTO processed_events (consumer, event_id) VALUES ('stock', ?)", other).Error; err != nil {
				return err
			}
			go func() {
				var name sql.NullString
				err := b.db.Raw("SELECT processed_events_drop()").Row().Scan(&name)
				result <- fmt.Sprint(name.String, err)
			}()
			b.awaitLockWait(t)
			return nil
		}))
		assert.Equal(t, fmt.Sprint("", error(nil)), <-result)
		require.NoError(t, b.deliver(t.Context(), other, forbidden(t)))

		b.exec(t, "DELETE FROM processed_events WHERE event_id = ?", other)
		assert.Equal(t, all[0], b.call(t, "SELECT processed_events_drop()").String)
		assert.Equal(t, all[1:], ranges())
		assert.Zero(t, b.records(t))
		require.NoError(t, b.deliver(t.Context(), late, write), "like any whose record was removed")
		require.NoError(t, b.deliver(t.Context(), late, forbidden(t)))
	})
}

// TestRangesThatNobodyMadeInTime: nothing fails, and their records move when somebody does.
func TestRangesThatNobodyMadeInTime(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		b.partition(t)
		id := v7(t, time.Now().Add(80*day))
		require.NoError(t, b.deliver(t.Context(), id, write))
		assert.EqualValues(t, 1, b.count(t, "processed_events_dated_rest"))
		assert.Equal(t, "0", b.call(t, "SELECT processed_events_extend()").String)
		assert.Equal(t, "10", b.call(t, "SELECT processed_events_extend('7 days', 14)").String)
		assert.Zero(t, b.count(t, "processed_events_dated_rest"))
		require.NoError(t, b.deliver(t.Context(), id, forbidden(t)))
		require.Error(t, b.db.Exec("SELECT processed_events_extend('1 minute')").Error)
		require.Error(t, b.db.Exec("SELECT processed_events_extend('7 days', 0)").Error)
	})
}
