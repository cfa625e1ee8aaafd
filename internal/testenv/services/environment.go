//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// server is one of the servers that the command runs. Its methods are called
// by one process at a time (start and stop hold the lock), except ping.
type server interface {
	// folder is where everything of this server lives; its base is the
	// server's name in messages.
	folder() string
	// variable is the environment variable with the server's address, and
	// address the value when the server is ours.
	variable() string
	address() string
	// missing lists the Debian packages that have to be installed.
	missing() []string
	// prepare creates the data, unless it is there. An attempt that was
	// killed halfway must not be mistaken for done.
	prepare(ctx context.Context) error
	// command runs the server in the foreground.
	command() *exec.Cmd
	// ping returns nil if the server does real work for a client.
	ping(ctx context.Context) error
	// stopSignal makes the server end in good order without waiting for
	// its clients.
	stopSignal() syscall.Signal
}

type environment struct {
	dir     string
	servers []server
}

func newEnvironment() (*environment, error) {
	dir := os.Getenv("OUTBOX_SERVICES_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "gormoutbox-services")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &environment{
		dir: dir,
		servers: []server{
			newPostgres15(filepath.Join(dir, "postgres")),
			newPostgres18(filepath.Join(dir, "postgres18")),
			&mariadb{home: filepath.Join(dir, "mariadb")},
			&kafka{home: filepath.Join(dir, "kafka")},
		},
	}, nil
}

func name(s server) string { return filepath.Base(s.folder()) }

// foreign reports whether the user named a server of his own. The address of
// our own server does not count: it is in the environment of every shell that
// evaluated the output of an earlier start.
func foreign(s server) bool {
	v := os.Getenv(s.variable())
	return v != "" && v != s.address()
}

func (e *environment) ours() []server {
	var ours []server
	for _, s := range e.servers {
		if !foreign(s) {
			ours = append(ours, s)
		}
	}
	return ours
}

func (e *environment) start(ctx context.Context) error {
	unlock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	var down []server
	var packages []string
	for _, s := range e.ours() {
		if pingOnce(ctx, s) == nil {
			log.Printf("%s runs already", name(s))
			continue
		}
		down = append(down, s)
		packages = append(packages, s.missing()...)
	}
	if err := install(ctx, packages); err != nil {
		return err
	}
	return each(down, func(s server) error {
		began := time.Now()
		if err := bringUp(ctx, s); err != nil {
			return fmt.Errorf("starting %s: %w", name(s), err)
		}
		log.Printf("%s is ready after %v", name(s), time.Since(began).Round(100*time.Millisecond))
		return nil
	})
}

func (e *environment) stop(ctx context.Context) error {
	unlock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	return each(e.servers, func(s server) error {
		p, ok := findServer(s)
		if !ok {
			return nil
		}
		if err := p.stop(ctx, s.stopSignal()); err != nil {
			return fmt.Errorf("stopping %s: %w", name(s), err)
		}
		log.Printf("%s is stopped", name(s))
		return nil
	})
}

// each runs fn for all servers in parallel and reports all errors.
func each(servers []server, fn func(server) error) error {
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = fn(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (e *environment) printExports(w io.Writer) error {
	for _, s := range e.servers {
		value := s.address()
		if foreign(s) {
			value = os.Getenv(s.variable())
		}
		if _, err := fmt.Fprintf(w, "export %s=%s\n", s.variable(), shellQuote(value)); err != nil {
			return err
		}
	}
	return nil
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (e *environment) printStatus(ctx context.Context, w io.Writer) error {
	var down []string
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range e.servers {
		address := s.address()
		var state string
		switch p, started := findServer(s); {
		case foreign(s):
			state, address = "set by "+s.variable(), os.Getenv(s.variable())
		case pingOnce(ctx, s) != nil:
			state = "down"
			down = append(down, name(s))
		case started:
			state = fmt.Sprintf("up, process %d", p.pid)
		default:
			state = "up, not started by this command"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", name(s), state, address)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(down) > 0 {
		return fmt.Errorf("no answer from %s", strings.Join(down, ", "))
	}
	return nil
}
