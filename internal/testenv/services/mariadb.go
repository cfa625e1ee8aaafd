//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

type mariadb struct{ home string }

func (m *mariadb) folder() string             { return m.home }
func (m *mariadb) variable() string           { return defaults.MySQLVariable }
func (m *mariadb) address() string            { return defaults.MySQL }
func (m *mariadb) stopSignal() syscall.Signal { return syscall.SIGTERM }

func (m *mariadb) data() string     { return filepath.Join(m.home, "data") }
func (m *mariadb) initFile() string { return filepath.Join(m.home, "init.sql") }

// program finds a program also where the PATH of an ordinary user does not
// lead.
func (m *mariadb) program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}

func (m *mariadb) missing() []string {
	for _, name := range []string{"mariadbd", "mariadb", "mariadb-install-db"} {
		if !exists(m.program(name)) {
			return []string{"mariadb-server"}
		}
	}
	return nil
}

func (m *mariadb) prepare(ctx context.Context) error {
	account, err := accountFor("mysql")
	if err != nil {
		return err
	}
	// The server runs this file at every start, before it listens.
	const users = "CREATE USER IF NOT EXISTS '" + defaults.MariaDBUser + "'@'%';\n" +
		"GRANT ALL PRIVILEGES ON *.* TO '" + defaults.MariaDBUser + "'@'%' WITH GRANT OPTION;\n"
	if err := os.WriteFile(m.initFile(), []byte(users), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(m.initFile(), 0o644); err != nil {
		return err
	}
	if exists(m.data()) {
		return nil
	}

	fresh, err := account.makeScratch(m.home)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, m.program("mariadb-install-db"),
		"--no-defaults", "--datadir="+fresh, "--auth-root-authentication-method=normal", "--skip-test-db")
	if err := runQuiet(account.own(cmd, m.home)); err != nil {
		return err
	}
	return os.Rename(fresh, m.data())
}

func (m *mariadb) command() *exec.Cmd {
	account, err := accountFor("mysql")
	cmd := exec.Command(m.program("mariadbd"),
		"--no-defaults",
		"--datadir="+m.data(),
		"--bind-address="+defaults.Host,
		"--port="+defaults.MariaDBPort,
		"--socket=mariadb.sock", // in the data folder
		"--pid-file=mariadb.pid",
		"--init-file="+m.initFile(),
		"--skip-name-resolve",
		"--max-connections=500",
		"--character-set-server=utf8mb4",
		"--default-time-zone=+00:00",
	)
	cmd.Err = err
	return account.own(cmd, m.home)
}

func (m *mariadb) ping(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, m.program("mariadb"),
		"--no-defaults", "--protocol=tcp", "--host="+defaults.Host, "--port="+defaults.MariaDBPort,
		"--user="+defaults.MariaDBUser, "--batch", "--execute=SELECT 1")
	return runQuiet(cmd)
}
