package testenv

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Database is a fresh, empty database of one test.
type Database struct {
	// Name is "postgres", "postgres18", "mariadb", "mysql", "sqlite" or the
	// name of a variant of MariaDB.
	Name string

	// DSN is what the driver takes: pgx, go-sql-driver/mysql or
	// modernc.org/sqlite. Everything that connects with it shares the
	// database.
	DSN string

	dialector func(dsn string) gorm.Dialector
	wire      wire // zero where there is no server
}

// Dialector returns a new GORM dialector for the database.
func (d Database) Dialector() gorm.Dialector {
	return d.dialector(d.DSN)
}

// Open opens a connection pool of its own, as another process would have, and
// closes it at the end of the test. At most one config may be given; where it
// has no logger, and by default, GORM logs nothing.
func (d Database) Open(t testing.TB, cfg ...*gorm.Config) *gorm.DB {
	t.Helper()
	return openPool(t, d.Name, d.Dialector(), cfg)
}

// openPool is Open for any dialector.
func openPool(t testing.TB, name string, dialector gorm.Dialector, cfg []*gorm.Config) *gorm.DB {
	t.Helper()

	var config gorm.Config
	switch len(cfg) {
	case 0:
	case 1:
		config = *cfg[0] // gorm.Open changes it
	default:
		t.Fatalf("testenv: Open takes one gorm.Config, got %d", len(cfg))
	}
	if config.Logger == nil {
		config.Logger = logger.Discard
	}

	db, err := gorm.Open(dialector, &config)
	if err != nil {
		t.Fatalf("opening %s: %v", name, err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatalf("opening %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("closing %s: %v", name, err)
		}
	})
	return db
}

// Each runs fn as a parallel subtest with a fresh database of every kind:
// postgres, mariadb and sqlite.
func Each(t *testing.T, fn func(t *testing.T, db Database)) {
	t.Helper()
	kinds := []struct {
		name string
		make func(testing.TB) Database
	}{
		{"postgres", Postgres},
		{"mariadb", MariaDB},
		{"sqlite", SQLite},
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			fn(t, kind.make(t))
		})
	}
}
