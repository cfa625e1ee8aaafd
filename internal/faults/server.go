//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	host      = "127.0.0.1"
	readyTime = 90 * time.Second
)

// server is a server that can be killed and started again, on the same port with the same data.
type server struct {
	name    string
	folder  string
	port    int
	command func() *exec.Cmd
	// ping says whether it does real work.
	ping func(ctx context.Context) error
	// crash is how it is ended without a chance to put things in order.
	crash syscall.Signal

	running *child
}

func (s *server) address() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// start starts the server and returns when it answers.
func (s *server) start(ctx context.Context) error {
	c, err := spawn(s.name, s.command(), s.folder+".log")
	if err != nil {
		return err
	}
	s.running = c
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return until(ctx, 50*time.Millisecond, func() error {
		select {
		case <-c.done:
			return &fatalError{&exitError{s.name, fmt.Sprintf("it ended while it started: %v", c.err)}}
		default:
		}
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return s.ping(once)
	})
}

// stop ends the server as in a crash.
func (s *server) stop() {
	if s.running == nil {
		return
	}
	if s.running.end(s.crash, 30*time.Second) != nil {
		s.running.kill()
	}
}

// fatalError ends until.
type fatalError struct{ error }

// Unwrap returns the error behind.
func (e *fatalError) Unwrap() error { return e.error }

// until calls fn again and again until it returns nil or a *fatalError, or ctx ends.
func until(ctx context.Context, interval time.Duration, fn func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := fn()
		if err == nil {
			return nil
		}
		if fatal := (*fatalError)(nil); errors.As(err, &fatal) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// wait returns after d or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause returns after d.
func pause(d time.Duration) { <-time.After(d) }

// freePort finds a port below those that connections going out are given, as it must
// stay free while its server is down.
func freePort() (int, error) {
	for range 1000 {
		port := 20_000 + rand.IntN(10_000) //nolint:gosec // any will do
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no port is free")
}

// runAs makes cmd run as the named account if this process is root's, whom database servers refuse.
func runAs(cmd *exec.Cmd, account, folder string) *exec.Cmd {
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "HOME="+folder, "LC_ALL=C.UTF-8")
	if os.Geteuid() != 0 {
		return cmd
	}
	uid, gid, err := ids(account)
	if err != nil {
		cmd.Err = err
		return cmd
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

func ids(account string) (uid, gid uint32, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, err
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	group, err := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(group), err
}

// ownedFolder makes a folder that belongs to the account.
func ownedFolder(path, account string) error {
	if err := os.Mkdir(path, 0o755); err != nil || os.Geteuid() != 0 {
		return err
	}
	uid, gid, err := ids(account)
	if err != nil {
		return err
	}
	return os.Chown(path, int(uid), int(gid))
}

// quietly runs a program that prepares something and shows its output only if it fails.
func quietly(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// program finds a program in the PATH and in further places, which may be patterns; the last match counts.
func program(name string, places ...string) (string, error) {
	for _, place := range places {
		if found, err := filepath.Glob(filepath.Join(place, name)); err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &missingError{name}
	}
	return path, nil
}
