//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

const postgresAccount = "postgres"

// postgresRelease is where the programs of a server come from.
type postgresRelease interface {
	// missing lists the Debian packages that have to be installed.
	missing() []string
	// fetch gets what no Debian package brings, unless it is there.
	fetch(ctx context.Context) error
	// version is the major version, or "" when nothing is installed.
	version() string
	// program returns the path of initdb or postgres.
	program(name string) string
}

type postgres struct {
	postgresRelease
	home             string
	environmentName  string
	url, port        string
	onlyMajorVersion string // of who answers at url; "" for any
}

func newPostgres15(home string) *postgres {
	return &postgres{
		postgresRelease: debianPostgres{},
		home:            home,
		environmentName: defaults.PostgresVariable,
		url:             defaults.Postgres,
		port:            defaults.PostgresPort,
	}
}

func newPostgres18(home string) *postgres {
	return &postgres{
		postgresRelease:  mavenPostgres{home},
		home:             home,
		environmentName:  defaults.Postgres18Variable,
		url:              defaults.Postgres18,
		port:             defaults.Postgres18Port,
		onlyMajorVersion: mavenPostgresMajor,
	}
}

func (p *postgres) folder() string             { return p.home }
func (p *postgres) variable() string           { return p.environmentName }
func (p *postgres) address() string            { return p.url }
func (p *postgres) stopSignal() syscall.Signal { return syscall.SIGINT } // TERM would wait for clients

// data depends on the version: another one cannot read it.
func (p *postgres) data() string {
	return filepath.Join(p.home, "data-"+p.version())
}

func (p *postgres) prepare(ctx context.Context) error {
	if err := p.fetch(ctx); err != nil {
		return err
	}
	account, err := accountFor(postgresAccount)
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
	account, err := accountFor(postgresAccount)
	cmd := exec.Command(p.program("postgres"),
		"-D", p.data(),
		"-h", defaults.Host,
		"-p", p.port,
		"-k", "", // no socket: its folder would need a short name
		"-c", "max_connections=300",
		"-c", "timezone=UTC",
	)
	cmd.Err = err
	return account.own(cmd, p.home)
}

// ping does without psql, which comes with one of the releases only.
func (p *postgres) ping(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	// The context may be done; the connection is thrown away either way.
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Nothing hangs on it.
	version := conn.ParameterStatus("server_version")
	if major, _, _ := strings.Cut(version, "."); p.onlyMajorVersion != "" && major != p.onlyMajorVersion {
		return fmt.Errorf("PostgreSQL %s answers instead of %s", version, p.onlyMajorVersion)
	}
	_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
	return err
}
