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
	return Database{Name: "mariadb", DSN: newMariaDB(t), dialector: mysql.Open}
}

// MySQLPath is MariaDB, but GORM uses no RETURNING, as on MySQL.
func MySQLPath(t testing.TB) Database {
	t.Helper()
	return Database{Name: "mysql", DSN: newMariaDB(t), dialector: func(dsn string) gorm.Dialector {
		return mysql.New(mysql.Config{DSN: dsn, DisableWithReturning: true})
	}}
}

func newMariaDB(t testing.TB) (dsn string) {
	t.Helper()
	server := mariadbServer.require(t)

	name := uniqueName()
	config, err := mysqldriver.ParseDSN(server)
	if err != nil {
		t.Fatalf("%s: %v", defaults.MySQLVariable, err)
	}
	config.DBName = name
	config.ParseTime = true

	create(t, name, func(ctx context.Context) error {
		return execMariaDB(ctx, server, "CREATE DATABASE "+name)
	})
	drop(t, name, func(ctx context.Context) error {
		return execMariaDB(ctx, server, "SET lock_wait_timeout = 15", "DROP DATABASE "+name)
	})
	return config.FormatDSN()
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
