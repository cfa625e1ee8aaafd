package dedup_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func problems(t *testing.T, err error) []string {
	t.Helper()
	schemaErr, ok := errors.AsType[*dedup.SchemaError](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, err.Error(), "dedup: schema: ")
	return schemaErr.Problems
}

func TestMigrateFromEightProcesses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var wg sync.WaitGroup
		for range 8 {
			db := env.Open(t)
			wg.Go(func() { assert.NoError(t, dedup.Migrate(t.Context(), db)) })
		}
		wg.Wait()
		db := env.Open(t)
		require.NoError(t, dedup.Check(t.Context(), db))
		require.NoError(t, dedup.Migrate(t.Context(), db), "again")
	})
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := env.Open(t)
		check := func() []string { t.Helper(); return problems(t, dedup.Check(t.Context(), db)) }
		run := func(statement string) { t.Helper(); require.NoError(t, db.Exec(statement).Error) }

		assert.Equal(t, []string{"table processed_events is missing", "table processed_events_sequences is missing"}, check())

		require.NoError(t, dedup.Migrate(t.Context(), db))
		require.NoError(t, dedup.Check(t.Context(), db))

		run("UPDATE processed_events_schema SET version = 99 WHERE version = 2")
		assert.Equal(t, []string{"processed_events_schema says version 99 and this code knows up to 2: update the library"}, check())
		assert.Equal(t, check(), problems(t, dedup.Migrate(t.Context(), db)))
		run("DELETE FROM processed_events_schema")
		assert.Equal(t, []string{"processed_events_schema says version 0 and this code needs 2"}, check())
		run("INSERT INTO processed_events_schema (version) VALUES (1), (2)")
		require.NoError(t, dedup.Check(t.Context(), db))

		if env.Name == "mariadb" {
			run("DROP INDEX processed_events_processed_at ON processed_events")
		} else {
			run("DROP INDEX processed_events_processed_at")
		}
		assert.Equal(t, []string{"index processed_events_processed_at on processed_events is missing"}, check())
		run("ALTER TABLE processed_events DROP COLUMN processed_at")
		assert.Equal(t, []string{
			"column processed_events.processed_at is missing",
			"index processed_events_processed_at on processed_events is missing",
		}, check())

		run("DROP TABLE processed_events")
		run("CREATE TABLE processed_events (consumer VARCHAR(255) NOT NULL, event_id VARCHAR(255) NOT NULL, processed_at TIMESTAMP)")
		run("CREATE INDEX processed_events_processed_at ON processed_events (processed_at)")
		assert.Equal(t, []string{"primary key (consumer, event_id) of processed_events is missing"}, check())
	})
}

func TestShortKeyIsFound(t *testing.T) {
	t.Parallel()
	db := testenv.MariaDB(t).Open(t)
	require.NoError(t, dedup.Migrate(t.Context(), db))
	require.NoError(t, db.Exec("ALTER TABLE processed_events MODIFY event_id VARBINARY(36) NOT NULL").Error)
	assert.Equal(t, []string{
		"column processed_events.event_id is varbinary(36) and must be compared byte by byte, or different ids count as one",
	}, problems(t, dedup.Check(t.Context(), db)))
}

// Without the key nothing would be a duplicate: an error where the database can tell.
func TestMissingKeyIsAnError(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, fresh(t), dedup.Config{})
			require.NoError(t, b.db.Exec("DROP TABLE processed_events").Error)
			require.NoError(t, b.db.Exec("CREATE TABLE processed_events (consumer text, event_id text, processed_at text)").Error)
			require.ErrorContains(t, b.deliver(t.Context(), "m1", forbidden(t)), "dedup: recording")
		})
	}
}

func TestConfiguredTable(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := env.Open(t)
		require.NoError(t, db.AutoMigrate(&effect{}))
		schema := map[string]string{"sqlite": "main"}[env.Name]
		if schema == "" {
			current := map[string]string{"postgres": "SELECT current_schema()", "mariadb": "SELECT database()"}[env.Name]
			require.NoError(t, db.Raw(current).Scan(&schema).Error)
		}
		for _, table := range []string{schema + ".qualified", "odd-Name?", strings.Repeat("n", 50)} {
			require.NoError(t, dedup.MigrateTable(t.Context(), db, table), table)
			require.NoError(t, dedup.CheckTable(t.Context(), db, table), table)
			require.NoError(t, dedup.MigrateTable(t.Context(), db, table), table)
			d, err := dedup.New(db, dedup.Config{Consumer: "stock", Table: table})
			require.NoError(t, err)
			assert.Equal(t, 1, distinct(t, d, []string{"m1"}), table)
		}
		assert.Equal(t, []string{"table processed_events is missing", "table processed_events_sequences is missing"}, problems(t, dedup.Check(t.Context(), db)))
	})
}

func TestMigrationsAreExported(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"postgres", "mysql", "sqlite"} {
		names, err := fs.Glob(dedup.Migrations, dialect+"/*.sql")
		require.NoError(t, err)
		assert.Equal(t, []string{dialect + "/0001_processed_events.sql", dialect + "/0002_sequences.sql"}, names)
	}
}

func TestMigrateRefusesBadArguments(t *testing.T) {
	t.Parallel()
	db := testenv.SQLite(t).Open(t)
	for name, fn := range map[string]func(context.Context, *gorm.DB, string) error{"migrate": dedup.MigrateTable, "check": dedup.CheckTable} {
		_, ok := errors.AsType[*dedup.ConfigError](fn(t.Context(), nil, "x"))
		assert.True(t, ok, name)
		_, ok = errors.AsType[*dedup.ConfigError](fn(t.Context(), db, ""))
		assert.True(t, ok, name)
	}
}

// TestAMessageWithoutTheTableSaysWhatToDo also with a pool of one connection.
func TestAMessageWithoutTheTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := env.Open(t)
		pool, err := db.DB()
		require.NoError(t, err)
		pool.SetMaxOpenConns(1)
		d, err := dedup.New(db, dedup.Config{Consumer: "c"})
		require.NoError(t, err)
		_, err = d.Middleware(consumer(forbidden(t)))(message.NewMessage("m", nil))
		var schema *dedup.SchemaError
		require.ErrorAs(t, err, &schema)
		assert.ErrorContains(t, err, "run dedup.Migrate")
	})
}
