//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

const (
	postgresPrograms  = "/usr/lib/postgresql"
	postgresPreferred = "15" // the version of Debian 12
)

type postgres struct{ home string }

func (p *postgres) folder() string             { return p.home }
func (p *postgres) variable() string           { return defaults.PostgresVariable }
func (p *postgres) address() string            { return defaults.Postgres }
func (p *postgres) stopSignal() syscall.Signal { return syscall.SIGINT } // TERM would wait for clients

func (p *postgres) missing() []string {
	if p.version() == "" {
		return []string{"postgresql"}
	}
	return nil
}

// version returns the major version to use: the preferred one, else the
// newest, else "".
func (p *postgres) version() string {
	installed, err := filepath.Glob(filepath.Join(postgresPrograms, "*", "bin", "initdb"))
	if err != nil {
		return ""
	}
	newest, version := 0, ""
	for _, path := range installed {
		v := filepath.Base(filepath.Dir(filepath.Dir(path)))
		if v == postgresPreferred {
			return v
		}
		if n, err := strconv.Atoi(v); err == nil && n > newest {
			newest, version = n, v
		}
	}
	return version
}

func (p *postgres) program(name string) string {
	return filepath.Join(postgresPrograms, p.version(), "bin", name)
}

// data depends on the version: another one cannot read it.
func (p *postgres) data() string {
	return filepath.Join(p.home, "data-"+p.version())
}

func (p *postgres) prepare(ctx context.Context) error {
	account, err := accountFor("postgres")
	if err != nil {
		return err
	}
	if exists(p.data()) {
		return p.dropStaleLock()
	}

	fresh, err := account.makeScratch(p.home)
	if err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, p.program("initdb"),
		"-D", fresh, "-U", defaults.PostgresUser, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
	if err := runQuiet(account.own(initdb, p.home)); err != nil {
		return err
	}
	// Single-user mode: the database is there before anybody can connect.
	create := exec.CommandContext(ctx, p.program("postgres"), "--single", "-D", fresh, "postgres")
	create.Stdin = strings.NewReader("CREATE DATABASE " + defaults.PostgresDatabase + "\n")
	if err := runQuiet(account.own(create, p.home)); err != nil {
		return err
	}
	return os.Rename(fresh, p.data())
}

// dropStaleLock removes the server's own pid file if the pid has meanwhile
// gone to another program: the server would take that for itself. A pid that
// does not run is left to the server, which also looks for orphans.
func (p *postgres) dropStaleLock() error {
	path := filepath.Join(p.data(), "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return os.Remove(path) // torn by a crash
	}
	if _, runs := startTime(pid); runs && !mentions(pid, p.data()) {
		return os.Remove(path)
	}
	return nil
}

func (p *postgres) command() *exec.Cmd {
	account, err := accountFor("postgres")
	cmd := exec.Command(p.program("postgres"),
		"-D", p.data(),
		"-h", defaults.Host,
		"-p", defaults.PostgresPort,
		"-k", "", // no socket: its folder would need a short name
		"-c", "max_connections=300",
		"-c", "timezone=UTC",
	)
	cmd.Err = err
	return account.own(cmd, p.home)
}

func (p *postgres) ping(ctx context.Context) error {
	if p.version() == "" {
		return exec.ErrNotFound
	}
	cmd := exec.CommandContext(ctx, p.program("psql"), "-X", "-w", "-At", "-c", "SELECT 1", defaults.Postgres)
	return runQuiet(cmd)
}
