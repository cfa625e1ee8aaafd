//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

type mariaDB struct{}

func (d mariaDB) prepare(ctx context.Context, folder string) (*server, error) {
	const account = "mysql"
	install, err := program("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	daemon, err := program("mariadbd", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "mariadb")
	if err := ownedFolder(data, account); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	if err := quietly(runAs(command, account, data)); err != nil {
		return nil, err
	}
	// The server runs this file at every start, before it listens.
	first := filepath.Join(folder, "init.sql")
	statements := "CREATE USER IF NOT EXISTS 'outbox'@'%';\nGRANT ALL PRIVILEGES ON *.* TO 'outbox'@'%';\nCREATE DATABASE IF NOT EXISTS faults;\n"
	if err := os.WriteFile(first, []byte(statements), 0o644); err != nil {
		return nil, err
	}
	s := &server{name: "mariadb", folder: data, port: port, crash: syscall.SIGKILL}
	s.command = func() *exec.Cmd {
		return runAs(exec.Command(daemon, "--no-defaults", "--datadir="+data, "--bind-address="+host, "--port="+strconv.Itoa(port),
			"--socket=mariadb.sock", "--pid-file=mariadb.pid", "--init-file="+first, "--skip-name-resolve", "--max-connections=200",
			"--character-set-server=utf8mb4", "--default-time-zone=+00:00",
			// The log is written at each commit, but not synced: a killed server loses nothing.
			"--innodb-flush-log-at-trx-commit=2"), account, data)
	}
	s.ping = func(ctx context.Context) error { return ping(ctx, "mysql", d.dsn(s.address())) }
	return s, nil
}

func (mariaDB) dsn(address string) string {
	return "outbox@tcp(" + address + ")/faults?parseTime=true&timeout=3s"
}

func (mariaDB) dialector(dsn string) gorm.Dialector { return mysql.Open(dsn) }

func (mariaDB) sessions() string {
	return "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'outbox' AND ID <> CONNECTION_ID() ORDER BY ID"
}

func (mariaDB) terminate(session int64) string { return fmt.Sprintf("KILL CONNECTION %d", session) }

func (mariaDB) snapshot() []string {
	return []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM accounts"}
}
