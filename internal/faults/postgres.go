//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// database is what differs between the databases under test.
type database interface {
	// prepare makes the data and returns the server, not yet started.
	prepare(ctx context.Context, folder string) (*server, error)
	// dsn is how to reach the server at an address, its own or that of a proxy.
	dsn(address string) string
	dialector(dsn string) gorm.Dialector
	// sessions lists the sessions of clients but for the one that asks, terminate returns the statement that ends one.
	sessions() string
	terminate(session int64) string
	// snapshot are the statements that begin a transaction and fix its snapshot.
	snapshot() []string
}

func databaseFor(name string) (database, error) {
	switch name {
	case "postgres":
		return postgresDB{}, nil
	case "mariadb":
		return mariaDB{}, nil
	}
	return nil, fmt.Errorf("no database is called %q; use postgres or mariadb", name)
}

type postgresDB struct{}

func (d postgresDB) prepare(ctx context.Context, folder string) (*server, error) {
	const account = "postgres"
	initdb, err := program("initdb", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "postgres")
	if err := ownedFolder(data, account); err != nil {
		return nil, err
	}
	// Without fsync a killed server loses nothing, only a machine without power does.
	command := exec.CommandContext(ctx, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if err := quietly(runAs(command, account, data)); err != nil {
		return nil, err
	}
	s := &server{name: "postgres", folder: data, port: port, crash: syscall.SIGQUIT} // "immediate shutdown"
	s.command = func() *exec.Cmd {
		return runAs(exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", host, "-p", strconv.Itoa(port), "-k", "",
			"-c", "max_connections=200", "-c", "timezone=UTC", "-c", "fsync=off", "-c", "log_min_messages=fatal"), account, data)
	}
	s.ping = func(ctx context.Context) error { return ping(ctx, "pgx", d.dsn(s.address())) }
	return s, nil
}

func (postgresDB) dsn(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable&connect_timeout=3"
}

func (postgresDB) dialector(dsn string) gorm.Dialector { return postgres.Open(dsn) }

func (postgresDB) sessions() string {
	return "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid"
}

func (postgresDB) terminate(session int64) string {
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", session)
}

func (postgresDB) snapshot() []string {
	return []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT COUNT(*) FROM accounts"}
}

// ping connects and asks something.
func ping(ctx context.Context, driver, dsn string) error {
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	var one int
	return pool.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}
