package gormoutbox_test

import (
	"fmt"
	"io/fs"
	pathpkg "path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		var group errgroup.Group
		for range 8 {
			g := db.Open(t) // a pool of its own, as another process has
			group.Go(func() error { return gormoutbox.Migrate(t.Context(), g) })
		}
		require.NoError(t, group.Wait())
		g := db.Open(t)
		require.NoError(t, gormoutbox.Check(t.Context(), g))
		for table, want := range map[string]int64{"outbox_partitions": 64, "outbox_schema": 1} {
			var n int64
			require.NoError(t, g.Table(table).Count(&n).Error)
			assert.Equal(t, want, n, table)
		}
	})
}

// Nothing migrates by itself: without Migrate saves fail, with an error that says so, and nothing is written.
func TestNothingMigratesByItself(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		require.NoError(t, g.AutoMigrate(&Order{}))
		_ = requireSchemaError(t, g.Create(newOrder()).Error)
		_ = requireSchemaError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1"}))
		assert.False(t, g.Migrator().HasTable("outbox_events"))
		assert.Zero(t, count(t, g, &Order{}))
		e := requireSchemaError(t, gormoutbox.Check(t.Context(), g))
		assert.Equal(t, []string{
			"table outbox_events is missing", "table outbox_partitions is missing", "table outbox_held is missing", "table outbox_relays is missing",
		}, e.Problems)
		idle(t, g)
	})
}

// Check names what is missing.
func TestCheck(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		require.NoError(t, gormoutbox.Check(t.Context(), g))
		require.NoError(t, gormoutbox.CheckTable(t.Context(), g, ""))
		on := ""
		if g.Name() == "mysql" {
			on = " ON outbox_events"
		}
		for _, step := range []struct {
			exec     string
			problems []string
		}{
			{"DROP INDEX outbox_events_id" + on, []string{"index outbox_events_id on outbox_events is missing"}},
			{"ALTER TABLE outbox_events DROP COLUMN last_error", []string{
				"column outbox_events.last_error is missing", "index outbox_events_id on outbox_events is missing",
			}},
			{"ALTER TABLE outbox_held RENAME TO elsewhere", []string{
				"column outbox_events.last_error is missing", "index outbox_events_id on outbox_events is missing", "table outbox_held is missing",
			}},
		} {
			require.NoError(t, g.Exec(step.exec).Error)
			assert.Equal(t, step.problems, requireSchemaError(t, gormoutbox.Check(t.Context(), g)).Problems)
		}
	})
}

func TestOtherVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		setup(t, db, gormoutbox.Config{}, &Order{})
		for change, want := range map[string]string{
			"INSERT INTO outbox_schema (version) VALUES (2)": "says version 2 and this code knows up to 1: update the library",
			"DELETE FROM outbox_schema":                      "says version 0 and this code needs 1",
		} {
			g := db.Open(t)
			require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
			require.NoError(t, g.Exec(change).Error)
			assert.Contains(t, requireSchemaError(t, gormoutbox.Check(t.Context(), g)).Error(), want)
			if strings.HasPrefix(change, "INSERT") {
				_ = requireSchemaError(t, gormoutbox.Migrate(t.Context(), g))
			}
			_ = requireSchemaError(t, g.Create(newOrder()).Error)
			assert.Zero(t, count(t, g, &Order{}))
			idle(t, g)
			require.NoError(t, g.Exec("DELETE FROM outbox_schema").Error)
			require.NoError(t, g.Exec("INSERT INTO outbox_schema (version) VALUES (1)").Error)
		}
		g := db.Open(t)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		require.NoError(t, g.Exec("DELETE FROM outbox_partitions").Error)
		assert.Contains(t, requireSchemaError(t, g.Create(newOrder()).Error).Error(), "outbox_partitions is empty")
	})
}

// The count of the database counts, not that of the config.
func TestPartitionCountOfTheDatabase(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		setup(t, db, gormoutbox.Config{Partitions: 1})
		g := setup(t, db, gormoutbox.Config{Partitions: 1000}, &Order{})
		for range 5 {
			require.NoError(t, g.Create(newOrder()).Error)
		}
		var parts []int
		require.NoError(t, g.Table("outbox_events").Distinct().Pluck("part", &parts).Error)
		assert.Equal(t, []int{0}, parts)
	})
}

// The folders are numbered alike, and the files can be run by a tool of the user's.
func TestMigrationsFS(t *testing.T) {
	t.Parallel()
	var want []string
	for _, dialect := range []string{"postgres", "mysql", "sqlite"} {
		files, err := fs.Glob(gormoutbox.Migrations, dialect+"/*.sql")
		require.NoError(t, err)
		var names []string
		for i, name := range files {
			names = append(names, pathpkg.Base(name))
			assert.True(t, strings.HasPrefix(pathpkg.Base(name), fmt.Sprintf("%04d_", i+1)), name)
		}
		require.NotEmpty(t, names)
		if want == nil {
			want = names
		}
		assert.Equal(t, want, names)
	}
}

func TestMigrationsByHand(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		text, err := fs.ReadFile(gormoutbox.Migrations, g.Name()+"/0001_outbox.sql")
		require.NoError(t, err)
		for stmt := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(stmt) != "" {
				require.NoError(t, g.Exec(stmt).Error)
			}
		}
		require.NoError(t, gormoutbox.Check(t.Context(), g))
	})
}

// TestMigrateDoesNotHideABrokenSchema: what was dropped after a migration does not come back by another one.
func TestMigrateDoesNotHideABrokenSchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		require.NoError(t, g.Exec("DROP TABLE outbox_held").Error)
		err := gormoutbox.Migrate(t.Context(), g)
		var schema *gormoutbox.SchemaError
		require.ErrorAs(t, err, &schema)
		assert.Equal(t, []string{"table outbox_held is missing"}, schema.Problems)
		assert.ErrorContains(t, err, "outbox_schema says that all migrations were applied")
	})
}
