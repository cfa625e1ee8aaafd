package testenv_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/internal/testenv"
)

type note struct {
	ID   int64
	Text string
}

// constructors are all the ways to get a database.
var constructors = map[string]func(testing.TB) testenv.Database{
	"postgres":            testenv.Postgres,
	"postgres18":          testenv.Postgres18,
	"mariadb":             testenv.MariaDB,
	"mariadb-interpolate": testenv.MariaDBInterpolate,
	"mysql":               testenv.MySQLPath,
	"mysql-foundrows":     testenv.MySQLFoundRows,
	"mysql-increment2":    testenv.MySQLIncrement,
	"mysql-interpolate":   testenv.MySQLInterpolate,
	"sqlite":              testenv.SQLite,
}

func TestDatabasesAreIsolated(t *testing.T) {
	t.Parallel()
	for name, fresh := range constructors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := fresh(t), fresh(t)
			assert.Equal(t, name, a.Name)
			require.NotEqual(t, a.DSN, b.DSN)

			dbA, dbB := a.Open(t), b.Open(t)
			require.NoError(t, dbA.AutoMigrate(&note{}))
			require.NoError(t, dbA.Create(&note{Text: "grüße"}).Error)
			assert.False(t, dbB.Migrator().HasTable(&note{}), "visible in the other database")

			// A further pool sees the same rows.
			var got note
			require.NoError(t, a.Open(t).Take(&got).Error)
			assert.Equal(t, "grüße", got.Text)
		})
	}
}

func TestDatabasesAreDropped(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"postgres":   "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?",
		"postgres18": "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?",
		"mariadb":    "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var schema string
			t.Run("use", func(t *testing.T) {
				db := constructors[name](t).Open(t)
				require.NoError(t, db.AutoMigrate(&note{}))
				current := "SELECT current_schema()"
				if name == "mariadb" {
					current = "SELECT database()"
				}
				require.NoError(t, db.Raw(current).Scan(&schema).Error)
				require.NotEmpty(t, schema)
			})

			var count int
			require.NoError(t, constructors[name](t).Open(t).Raw(query, schema).Scan(&count).Error)
			assert.Zero(t, count)
		})
	}
}

func TestMySQLPathDoesWithoutReturning(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"mariadb":             true,
		"mariadb-interpolate": true,
		"mysql":               false,
		"mysql-foundrows":     false,
		"mysql-increment2":    false,
		"mysql-interpolate":   false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := constructors[name](t).Open(t)
			require.NoError(t, db.AutoMigrate(&note{}))
			sql := db.ToSQL(func(tx *gorm.DB) *gorm.DB {
				return tx.Clauses(clause.Returning{}).Where("id = 1").Delete(&note{})
			})
			if want {
				assert.Contains(t, sql, "RETURNING")
			} else {
				assert.NotContains(t, sql, "RETURNING")
			}
		})
	}
}

func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	db := testenv.SQLite(t).Open(t)
	for pragma, want := range map[string]string{
		"journal_mode": "wal",
		"busy_timeout": "10000",
		"foreign_keys": "1",
	} {
		var got string
		require.NoError(t, db.Raw("PRAGMA "+pragma).Scan(&got).Error)
		assert.Equal(t, want, got, pragma)
	}

	// _txlock=immediate: BEGIN alone keeps other writers out.
	first := db.Begin()
	require.NoError(t, first.Error)
	defer first.Rollback()
	pool, err := db.DB()
	require.NoError(t, err)
	second, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer second.Close()
	_, err = second.ExecContext(t.Context(), "PRAGMA busy_timeout = 0")
	require.NoError(t, err)
	_, err = second.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	assert.ErrorContains(t, err, "locked")
}

func TestEach(t *testing.T) {
	t.Parallel()
	// Skips this test where a server is missing.
	testenv.Postgres(t)
	testenv.MariaDB(t)

	seen := make(chan string, 3)
	t.Run("all", func(t *testing.T) {
		testenv.Each(t, func(t *testing.T, db testenv.Database) {
			require.NoError(t, db.Open(t, &gorm.Config{SkipDefaultTransaction: true}).Exec("SELECT 1").Error)
			seen <- db.Name
		})
	})
	close(seen)
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"postgres", "mariadb", "sqlite"}, names)
}
