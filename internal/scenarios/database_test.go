package scenarios_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// quiet drops logs; tests look at the tables.
var quiet = slog.New(slog.DiscardHandler)

// each runs a test on PostgreSQL and MariaDB. fresh makes one more database.
func each(t *testing.T, fn func(t *testing.T, fresh func() testenv.Database)) {
	t.Helper()
	for _, kind := range []struct {
		name string
		make func(testing.TB) testenv.Database
	}{{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}} {
		t.Run(kind.name, func(t *testing.T) {
			parallel(t)
			fn(t, func() testenv.Database { return kind.make(t) })
		})
	}
}

// open opens a pool of n connections with the plugin.
func open(t *testing.T, db testenv.Database, n int) *gorm.DB {
	t.Helper()
	g := bare(t, db, n)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
	return g
}

// bare opens a pool of n connections.
func bare(t *testing.T, db testenv.Database, n int) *gorm.DB {
	t.Helper()
	g := db.Open(t)
	pool, err := g.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	return g
}

// prepare makes the tables of the outbox.
func prepare(t *testing.T, db testenv.Database) *gorm.DB {
	t.Helper()
	g := open(t, db, 4)
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	return g
}

// count is what a query counts, -1 if it fails.
func count(t *testing.T, g *gorm.DB, query string) int {
	t.Helper()
	n := -1
	assert.NoError(t, g.Raw(query).Scan(&n).Error)
	return n
}

const (
	unpublished = "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"
	charged     = "SELECT COUNT(*) FROM outbox_events WHERE attempts > 0 OR parked_at IS NOT NULL"
	held        = "SELECT COUNT(*) FROM outbox_held"
)

// patience is how long nothing may happen that is waited for.
const patience = time.Minute

// settled waits until every event is recorded as published.
func settled(t *testing.T, g *gorm.DB) {
	t.Helper()
	assert.Eventually(t, func() bool { return count(t, g, unpublished) == 0 }, patience, 20*time.Millisecond, "not every event is settled")
}
