package gormoutbox_test

import (
	"database/sql"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// migrated applies the migration with its text changed, and returns what Check says of it.
func migrated(t *testing.T, g *gorm.DB, changes ...string) []string {
	t.Helper()
	text, err := fs.ReadFile(gormoutbox.Migrations, g.Name()+"/0001_outbox.sql")
	require.NoError(t, err)
	changed := strings.NewReplacer(changes...).Replace(string(text))
	require.NotEqual(t, string(text), changed)
	for stmt := range strings.SplitSeq(changed, ";\n") {
		if strings.TrimSpace(stmt) != "" {
			require.NoError(t, g.Exec(stmt).Error)
		}
	}
	return requireSchemaError(t, gormoutbox.Check(t.Context(), g)).Problems
}

// insertEvents adds events of the aggregates without a plugin.
func insertEvents(t *testing.T, g *gorm.DB, aggregates ...string) {
	t.Helper()
	for _, a := range aggregates {
		require.NoError(t, g.Exec("INSERT INTO outbox_events (part, id, aggregate_type, aggregate_id, event_type, payload, headers) VALUES (0, ?, 'a', ?, 't', '{}', '{}')",
			uuid.NewString(), a).Error)
	}
}

// PostgreSQL computes defaults in the order of the columns: with seq first a
// session holds a number before its transaction has an id that a snapshot knows.
func TestPostgresXidStandsBeforeSeq(t *testing.T) {
	t.Parallel()
	const xid = `  "xid"            xid8         NOT NULL DEFAULT pg_current_xact_id(),` + "\n"
	const seq = `  "seq"            bigint       NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1),` + "\n"
	plan := func(g *gorm.DB) string {
		var lines []string
		require.NoError(t, g.Raw(`EXPLAIN VERBOSE INSERT INTO outbox_events (part, id, aggregate_type, aggregate_id, event_type, payload)
SELECT 0, gen_random_uuid(), 'a', '1', 't', ''::bytea FROM generate_series(1, 2)`).Scan(&lines).Error)
		return strings.Join(lines, "\n")
	}

	right := testenv.Postgres(t).Open(t)
	require.NoError(t, gormoutbox.Migrate(t.Context(), right))
	text := plan(right)
	assert.Less(t, strings.Index(text, "pg_current_xact_id"), strings.Index(text, "nextval"), text)

	wrong := testenv.Postgres(t).Open(t)
	problems := migrated(t, wrong, xid+seq, seq+xid)
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "column outbox_events.xid must stand before seq")
	text = plan(wrong)
	assert.Greater(t, strings.Index(text, "pg_current_xact_id"), strings.Index(text, "nextval"), text)
}

// With a cache each session draws numbers of its own store, so a later commit may have a lower one.
func TestPostgresSequenceCache(t *testing.T) {
	t.Parallel()
	later := func(db testenv.Database, g *gorm.DB) (seqs []int64) {
		other := db.Open(t)
		insertEvents(t, g, "1")
		insertEvents(t, other, "2")
		insertEvents(t, g, "3")
		require.NoError(t, g.Table("outbox_events").Order("aggregate_id").Pluck("seq", &seqs).Error)
		return seqs
	}
	one := func(g *gorm.DB) *gorm.DB { // a session that keeps its cache
		pool, err := g.DB()
		require.NoError(t, err)
		pool.SetMaxOpenConns(1)
		return g
	}

	db := testenv.Postgres(t)
	g := one(db.Open(t))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	assert.IsIncreasing(t, later(db, g))

	db = testenv.Postgres(t)
	g = one(db.Open(t))
	problems := migrated(t, g, "CACHE 1", "CACHE 20")
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "has CACHE 20 and must have CACHE 1")
	assert.False(t, slices.IsSorted(later(db, g)))
}

// Under MariaDB's default collation three keys are one: the hold of one would hold the others.
func TestMySQLKeysAreBytes(t *testing.T) {
	t.Parallel()
	keys := []string{"aBc", "AbC", "aBc "}
	hold := func(g *gorm.DB) (held int64, err error) {
		for _, key := range keys {
			if err = g.Exec("INSERT INTO outbox_held (aggregate_type, aggregate_id, part, seq, reason) VALUES ('a', ?, 0, 1, 'r')", key).Error; err != nil {
				break
			}
		}
		require.NoError(t, g.Table("outbox_held").Where("aggregate_id = ?", "aBc").Count(&held).Error)
		return held, err
	}

	right := testenv.MariaDB(t).Open(t)
	require.NoError(t, gormoutbox.Migrate(t.Context(), right))
	held, err := hold(right)
	require.NoError(t, err)
	assert.EqualValues(t, 1, held)
	insertEvents(t, right, keys...)
	var same int64
	require.NoError(t, right.Table("outbox_events").Where("aggregate_id = ?", "aBc").Count(&same).Error)
	assert.EqualValues(t, 1, same)

	for _, column := range []string{"`aggregate_type` VARBINARY(255)", "`aggregate_id`   VARBINARY(255)"} {
		wrong := testenv.MariaDB(t).Open(t)
		problems := migrated(t, wrong, column, strings.Replace(column, "VARBINARY", "VARCHAR", 1))
		require.Len(t, problems, 2)
		name := strings.Trim(strings.Fields(column)[0], "`")
		assert.Contains(t, problems[0], "column outbox_events."+name+" is varchar and must be VARBINARY")
		assert.Contains(t, problems[1], "column outbox_held."+name+" is varchar and must be VARBINARY")
		if name == "aggregate_id" {
			_, err = hold(wrong)
			require.Error(t, err, "a second key is taken for the first")
			insertEvents(t, wrong, keys...)
			require.NoError(t, wrong.Table("outbox_events").Where("aggregate_id = ?", "aBc").Count(&same).Error)
			assert.EqualValues(t, 3, same)
		}
	}
}

// A plain rowid is used again after a delete: the new event would stand below the mark and never be read.
func TestSQLiteNumbersAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	after := func(g *gorm.DB) int64 {
		insertEvents(t, g, "1", "2")
		var mark int64
		require.NoError(t, g.Table("outbox_events").Select("MAX(seq)").Scan(&mark).Error)
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		insertEvents(t, g, "3")
		var next sql.NullInt64
		require.NoError(t, g.Raw("SELECT seq FROM outbox_events").Scan(&next).Error)
		return next.Int64 - mark
	}

	right := testenv.SQLite(t).Open(t)
	require.NoError(t, gormoutbox.Migrate(t.Context(), right))
	assert.Positive(t, after(right))

	wrong := testenv.SQLite(t).Open(t)
	problems := migrated(t, wrong, "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER PRIMARY KEY")
	require.Len(t, problems, 1)
	assert.Contains(t, problems[0], "column outbox_events.seq must be AUTOINCREMENT")
	assert.Negative(t, after(wrong))
}
