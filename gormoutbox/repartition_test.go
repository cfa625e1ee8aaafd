package gormoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// placed is an event as tests of partitions look at it.
type placed struct {
	Seq           int64
	Part          int
	ID            string
	AggregateType string
	AggregateID   string
}

// partitions are the numbers of the partitions, which must have no gap.
func partitions(t *testing.T, g *gorm.DB) (first, count int) {
	t.Helper()
	var parts []int
	require.NoError(t, g.Table("outbox_partitions").Order("part").Pluck("part", &parts).Error)
	require.NotEmpty(t, parts)
	require.Equal(t, parts[0]+len(parts)-1, parts[len(parts)-1])
	return parts[0], len(parts)
}

// requirePlaces expects every event with an aggregate in its partition and those without in any that exists.
func requirePlaces(t *testing.T, g *gorm.DB) {
	t.Helper()
	first, count := partitions(t, g)
	var all []placed
	require.NoError(t, g.Table("outbox_events").Order("seq").Find(&all).Error)
	require.NotEmpty(t, all)
	for _, e := range all {
		if e.AggregateType != "" {
			require.Equal(t, first+gormoutbox.Partition(e.AggregateType, e.AggregateID, count), e.Part, "event %d", e.Seq)
		}
		require.GreaterOrEqual(t, e.Part, first)
		require.Less(t, e.Part, first+count)
	}
}

// process settles all events, as a relay would.
func process(t *testing.T, g *gorm.DB) {
	t.Helper()
	require.NoError(t, g.Exec("UPDATE outbox_events SET processed_at = created_at").Error)
}

func appendEvents(t *testing.T, g *gorm.DB, n int) {
	t.Helper()
	var batch []gormoutbox.Event
	for i := range n {
		batch = append(batch, gormoutbox.Event{AggregateType: "a", AggregateID: fmt.Sprint(i), Type: "t", Payload: "1"}, gormoutbox.Event{Type: "t", Payload: "1"})
	}
	require.NoError(t, gormoutbox.Append(g, batch...))
}

// TestRepartitionMovesKeptEvents grows and shrinks; batches end within a partition and within the table.
func TestRepartitionMovesKeptEvents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		wantFirst, have := 0, 64
		for _, count := range []int{128, 16, 1, 1024, 64} {
			appendEvents(t, g, 40)
			process(t, g)
			var before []storedEvent
			require.NoError(t, g.Table("outbox_events").Order("seq").Find(&before).Error)
			batches := 0
			require.NoError(t, gormoutbox.RepartitionInSteps(t.Context(), g, count, 7, func(string) { batches++ }))
			assert.NotZero(t, batches)
			wantFirst, have = wantFirst+have, count
			first, n := partitions(t, g)
			assert.Equal(t, wantFirst, first, "numbers are not used again")
			assert.Equal(t, count, n)
			requirePlaces(t, g)
			assert.Equal(t, before, events(t, g), "nothing else is changed")
			require.NoError(t, gormoutbox.Check(t.Context(), g))

			// Reading begins behind what is kept.
			last := before[len(before)-1].Seq
			var lows []int64
			require.NoError(t, g.Table("outbox_partitions").Distinct().Pluck("low", &lows).Error)
			assert.Equal(t, []int64{last}, lows)
		}
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 64), "it is so already")
		first, _ := partitions(t, g)
		assert.Equal(t, wantFirst, first)
		idle(t, g)
	})
}

func TestRepartitionOfAnEmptyOutbox(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 3))
		appendEvents(t, g, 20)
		requirePlaces(t, g)
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 7))
		appendEvents(t, g, 20)
		requirePlaces(t, g)
	})
}

// TestRepartitionOfOtherTables takes the table of the plugin, or the one that is named.
func TestRepartitionOfOtherTables(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		table := "mail's_events"
		if db.Name != "sqlite" {
			var schema string
			query := "SELECT current_schema()"
			if db.Name == "mariadb" {
				query = "SELECT DATABASE()"
			}
			require.NoError(t, db.Open(t).Raw(query).Scan(&schema).Error)
			table = schema + "." + table
		}
		g := setup(t, db, gormoutbox.Config{Table: table})
		stale := db.Open(t)
		require.NoError(t, stale.Use(gormoutbox.New(gormoutbox.Config{Table: table})))
		appendEvents(t, stale, 5)
		require.NoError(t, g.Exec("UPDATE "+g.Statement.Quote(table)+" SET processed_at = created_at").Error)
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 3))
		require.ErrorIs(t, gormoutbox.Append(stale, gormoutbox.Event{Type: "t", Payload: "1"}), gormoutbox.ErrRepartitioned)
		require.NoError(t, gormoutbox.Repartition(t.Context(), db.Open(t), table, 5))
		var schema *gormoutbox.SchemaError
		require.ErrorAs(t, gormoutbox.Repartition(t.Context(), db.Open(t), "", 5), &schema, "there are no tables of the default names")
		var n int64
		require.NoError(t, g.Table(gormoutbox.TablesFor(table).Partitions).Count(&n).Error)
		assert.EqualValues(t, 5, n)
	})
}

func TestRepartitionIsChecked(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{})
	for name, call := range map[string]struct {
		field string
		db    *gorm.DB
		table string
		count int
	}{
		"none": {"count", g, "", 0}, "many": {"count", g, "", 1025}, "table": {"Table", g, "a.b.c", 1}, "db": {"db", nil, "", 1}, "transaction": {"db", g.Begin(), "", 1},
	} {
		var invalid *gormoutbox.ConfigError
		require.ErrorAs(t, gormoutbox.Repartition(t.Context(), call.db, call.table, call.count), &invalid, name)
		assert.Equal(t, call.field, invalid.Field)
		if name == "transaction" {
			require.NoError(t, call.db.Rollback().Error)
		}
	}
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Name: "two", Table: "two"})))
	require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 2), "the one with the default name")
	first, _ := partitions(t, g)
	assert.Equal(t, 64, first)
}

// TestRepartitionRefuses: each cause alone, and all together, and nothing is changed.
func TestRepartitionRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		appendEvents(t, g, 10)
		process(t, g)
		later := "'2999-01-01 00:00:00.000'"
		one := "UPDATE outbox_events SET %s WHERE seq = (SELECT s FROM (SELECT MIN(seq) AS s FROM outbox_events) x)"
		causes := []struct {
			name, set, undo string
			want            gormoutbox.RepartitionError
			text            string
		}{
			{
				"relay", "INSERT INTO outbox_relays (id, expires_at) VALUES ('r1', " + later + ")", "UPDATE outbox_relays SET expires_at = '2001-01-01 00:00:00.000'",
				gormoutbox.RepartitionError{Relays: []string{"r1"}},
				"1 relays are alive (r1) and 0 partitions are leased: stop",
			},
			{
				"lease", "UPDATE outbox_partitions SET owner = 'r2', expires_at = " + later + " WHERE part < 2", "UPDATE outbox_partitions SET expires_at = '2001-01-01 00:00:00.000' WHERE part < 2",
				gormoutbox.RepartitionError{Leases: 2},
				"2 partitions are leased",
			},
			{
				"pending", fmt.Sprintf(one, "processed_at = NULL"), "",
				gormoutbox.RepartitionError{Pending: 1},
				"1 events are pending: stop what saves",
			},
			{
				"delayed", fmt.Sprintf(one, "processed_at = NULL, available_at = "+later), "",
				gormoutbox.RepartitionError{Pending: 1, Delayed: 1},
				"1 events are delayed",
			},
			{
				"parked", fmt.Sprintf(one, "processed_at = NULL, parked_at = created_at"), "",
				gormoutbox.RepartitionError{Pending: 1, Parked: 1},
				"1 events are parked: redrive or skip",
			},
			{
				"held", "INSERT INTO outbox_held (aggregate_type, aggregate_id, part, seq, reason) VALUES ('a', '1', 1, 1, 'retry')", "DELETE FROM outbox_held",
				gormoutbox.RepartitionError{Held: 1},
				"1 aggregates are held: redrive or skip",
			},
			{
				"stray", fmt.Sprintf(one, "processed_at = NULL, part = 64"), fmt.Sprintf(one, "part = 0"),
				gormoutbox.RepartitionError{Pending: 1, Stray: 1},
				"call Repartition with the present count, 64",
			},
		}
		refused := func(name string) *gormoutbox.RepartitionError {
			var e *gormoutbox.RepartitionError
			require.ErrorAs(t, gormoutbox.Repartition(t.Context(), g, "", 128), &e, name)
			assert.Equal(t, "outbox_events", e.Table)
			first, count := partitions(t, g)
			assert.Equal(t, []int{0, 64}, []int{first, count}, name)
			return e
		}
		for _, c := range causes {
			require.NoError(t, g.Exec(c.set).Error, c.name)
			e := refused(c.name)
			got := *e
			assert.Equal(t, []any{c.want.Relays, c.want.Leases, c.want.Pending, c.want.Delayed, c.want.Parked, c.want.Stray, c.want.Held},
				[]any{got.Relays, got.Leases, got.Pending, got.Delayed, got.Parked, got.Stray, got.Held}, c.name)
			assert.ErrorContains(t, e, c.text)
			if c.undo != "" {
				require.NoError(t, g.Exec(c.undo).Error)
			}
			require.NoError(t, g.Exec("UPDATE outbox_events SET processed_at = created_at, available_at = NULL, parked_at = NULL").Error)
		}
		for _, i := range []int{0, 1, 4, 5} {
			require.NoError(t, g.Exec(strings.ReplaceAll(causes[i].set, "'r1'", "'r3'")).Error)
		}
		e := refused("all together")
		for _, text := range []string{"1 relays are alive (r3) and 2 partitions", "1 events are parked", "1 aggregates are held"} {
			assert.ErrorContains(t, e, text)
		}
		assert.NotContains(t, e.Error(), "events are pending")
		// Saves go on as before: nothing was fenced off.
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1"}))
		idle(t, g)
	})
}

// TestRepartitionGoesOnAfterACrash ends the first call between two batches.
func TestRepartitionGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		appendEvents(t, g, 50)
		process(t, g)
		ctx, cancel := context.WithCancel(t.Context())
		batches := 0
		err := gormoutbox.RepartitionInSteps(ctx, g, 16, 9, func(step string) {
			if step != "moved" {
				return
			}
			if batches++; batches == 3 {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		first, count := partitions(t, g)
		assert.Equal(t, []int{64, 16}, []int{first, count})
		stray := func() (n int64) {
			require.NoError(t, g.Table("outbox_events").Where("part < 64").Count(&n).Error)
			return n
		}
		assert.NotZero(t, stray())
		// Saves work meanwhile.
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{AggregateType: "a", AggregateID: "1", Type: "t", Payload: "1"}))

		// The second call goes on beside pending events and a relay that lives.
		require.NoError(t, g.Exec("INSERT INTO outbox_relays (id, expires_at) VALUES ('r1', '2999-01-01 00:00:00.000')").Error)
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 16))
		assert.Zero(t, stray())
		requirePlaces(t, g)
		assert.Len(t, events(t, g), 101)
		idle(t, g)
	})
}

// TestRepartitionGoesOnBehindTheFence: on MySQL and MariaDB the fence is made alone. A crash behind it leaves an outbox whose
// saves say what to do, and the second call finishes, also with another count.
func TestRepartitionGoesOnBehindTheFence(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.MariaDB(t), gormoutbox.Config{})
	appendEvents(t, g, 5)
	process(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, gormoutbox.RepartitionInSteps(ctx, g, 128, 9, func(string) { cancel() }), context.Canceled)
	first, count := partitions(t, g)
	assert.Equal(t, []int{0, 64}, []int{first, count})
	for range 2 {
		err := gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1"})
		require.ErrorIs(t, err, gormoutbox.ErrRepartitioned)
		require.ErrorContains(t, err, "gormoutbox.Repartition did not come to its end")
	}
	require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 32))
	appendEvents(t, g, 5)
	requirePlaces(t, g)
}

// TestARelayThatComesBehindTheFence does no harm: nothing is pending, and it loses its leases. An aggregate that is
// held then must not be left in a partition that is no more.
func TestARelayThatComesBehindTheFence(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.MariaDB(t), gormoutbox.Config{})
	var held error
	err := gormoutbox.RepartitionInSteps(t.Context(), g, 128, 9, func(string) {
		held = g.Exec("INSERT INTO outbox_held (aggregate_type, aggregate_id, part, seq, reason) VALUES ('a', '1', 1, 1, 'retry')").Error
	})
	require.NoError(t, held)
	var e *gormoutbox.RepartitionError
	require.ErrorAs(t, err, &e)
	first, count := partitions(t, g)
	assert.Equal(t, []int{0, 64}, []int{first, count})
	require.NoError(t, g.Exec("DELETE FROM outbox_held").Error)

	err = gormoutbox.RepartitionInSteps(t.Context(), g, 128, 9, func(string) {
		held = errors.Join(g.Exec("INSERT INTO outbox_relays (id, expires_at) VALUES ('r1', '2999-01-01')").Error,
			g.Exec("UPDATE outbox_partitions SET owner = 'r1', token = 't', expires_at = '2999-01-01'").Error)
	})
	require.NoError(t, held)
	require.NoError(t, err)
	first, count = partitions(t, g)
	assert.Equal(t, []int{64, 128}, []int{first, count})
	var leased int64
	require.NoError(t, g.Table("outbox_partitions").Where("token <> ''").Count(&leased).Error)
	assert.Zero(t, leased)
}

// TestAStaleWriterIsRefused: a process that was not stopped knows the old partitions. Its save fails as a whole, and the next one is right.
func TestAStaleWriterIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		stale := db.Open(t)
		require.NoError(t, stale.Use(gormoutbox.New(gormoutbox.Config{})))
		// More partitions, fewer, and as many as it knows.
		for _, count := range []int{128, 2, 64} {
			require.NoError(t, stale.Create(newOrder()).Error)
			process(t, g)
			require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", count))
			orders, all := count2(t, g)
			err := stale.Create(newOrder()).Error
			require.ErrorIs(t, err, gormoutbox.ErrRepartitioned)
			nowOrders, nowAll := count2(t, g)
			assert.Equal(t, []int{orders, all}, []int{nowOrders, nowAll}, "neither row nor event")
			require.NoError(t, stale.Transaction(func(tx *gorm.DB) error {
				for range 20 {
					if err := tx.Create(newOrder()).Error; err != nil {
						return err
					}
				}
				return nil
			}))
			requirePlaces(t, g)
		}
		idle(t, stale)
	})
}

func count2(t *testing.T, g *gorm.DB) (orders, all int) {
	t.Helper()
	return count(t, g, &Order{}), len(events(t, g))
}

// TestRepartitionWaitsForOpenTransactions: a save whose transaction began before the change and ends after its begin is
// either seen as pending or refused, never in an old partition afterwards.
func TestRepartitionWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		writer := db.Open(t)
		require.NoError(t, writer.Use(gormoutbox.New(gormoutbox.Config{})))
		tx := writer.Begin()
		require.NoError(t, tx.Error)
		require.NoError(t, gormoutbox.Append(tx, gormoutbox.Event{AggregateType: "a", AggregateID: "1", Type: "t", Payload: "1"}))
		done := make(chan error, 1)
		go func() { done <- gormoutbox.Repartition(context.WithoutCancel(t.Context()), g, "", 8) }()
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		require.NoError(t, tx.Commit().Error)
		var e *gormoutbox.RepartitionError
		require.ErrorAs(t, <-done, &e)
		assert.EqualValues(t, 1, e.Pending)
		first, count := partitions(t, g)
		assert.Equal(t, []int{0, 64}, []int{first, count})
		require.NoError(t, gormoutbox.Append(writer, gormoutbox.Event{Type: "t", Payload: "1"}), "it is as it was")
	})
}

// TestStrayEventsAreMovedToTheirPartitions: events that came past the fence are found again, and read.
func TestStrayEventsAreMovedToTheirPartitions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Partitions: 4})
		appendEvents(t, g, 3)
		var one placed
		require.NoError(t, g.Table("outbox_events").Where("aggregate_id = ?", "1").First(&one).Error)
		require.NoError(t, g.Exec("UPDATE outbox_events SET part = 77 WHERE seq = ?", one.Seq).Error)
		require.NoError(t, g.Exec("UPDATE outbox_partitions SET low = 1000").Error)
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 4))
		requirePlaces(t, g)
		var low int64
		part := gormoutbox.Partition("a", "1", 4)
		require.NoError(t, g.Table("outbox_partitions").Where("part = ?", part).Pluck("low", &low).Error)
		assert.Equal(t, one.Seq-1, low)
	})
}

// TestPartitionsChangedByHand: gaps are refused by who writes and by who checks.
func TestPartitionsChangedByHand(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		setup(t, db, gormoutbox.Config{})
		g := db.Open(t)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		require.NoError(t, g.Exec("DELETE FROM outbox_partitions WHERE part = 5").Error)
		for _, err := range []error{gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1"}), gormoutbox.Check(t.Context(), g), gormoutbox.Repartition(t.Context(), g, "", 5)} {
			assert.Contains(t, requireSchemaError(t, err).Error(), "outbox_partitions has 63 rows and numbers from 0 to 63")
		}
	})
}
