package testenv

import (
	"context"
	"database/sql"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

var mariadbServer = server{
	name:     "MariaDB",
	variable: defaults.MySQLVariable,
	fallback: defaults.MySQL,
	probe: func(ctx context.Context, dsn string) error {
		return execMariaDB(ctx, dsn, "SELECT 1")
	},
}

// MariaDB returns a fresh database of the MariaDB server. Its DSN has
// parseTime, which GORM needs.
func MariaDB(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mariadb", mysql.Open, nil)
}

// MySQLPath is MariaDB, but GORM uses no RETURNING, as on MySQL.
func MySQLPath(t testing.TB) Database {
	t.Helper()
	return newMariaDB(t, "mysql", withoutReturning, nil)
}

func withoutReturning(dsn string) gorm.Dialector {
	return mysql.New(mysql.Config{DSN: dsn, DisableWithReturning: true})
}

// newMariaDB creates a database; configure, which may be nil, changes what
// the DSN says.
func newMariaDB(t testing.TB, kind string, dialector func(string) gorm.Dialector, configure func(*mysqldriver.Config)) Database {
	t.Helper()
	server := mariadbServer.require(t)

	name := uniqueName()
	config, err := mysqldriver.ParseDSN(server)
	if err != nil {
		t.Fatalf("%s: %v", defaults.MySQLVariable, err)
	}
	config.DBName = name
	config.ParseTime = true
	if configure != nil {
		configure(config)
	}

	create(t, name, func(ctx context.Context) error {
		return execMariaDB(ctx, server, "CREATE DATABASE "+name)
	})
	drop(t, name, func(ctx context.Context) error {
		return execMariaDB(ctx, server, "SET lock_wait_timeout = 15", "DROP DATABASE "+name)
	})
	return Database{Name: kind, DSN: config.FormatDSN(), dialector: dialector, wire: mariadbWire}
}

func execMariaDB(ctx context.Context, dsn string, statements ...string) error {
	pool, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pool.Conn(ctx) // one session for all the statements
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
