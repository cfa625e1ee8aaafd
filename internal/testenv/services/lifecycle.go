//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	prepareTimeout = 15 * time.Minute // the first time with downloads
	readyTimeout   = 3 * time.Minute  // on a busy machine
	pingTimeout    = 5 * time.Second
	logTail        = 40 // lines shown when a server does not start
	// The orphans of a killed server hold its memory and files for a moment.
	startAttempts = 4
)

var errExited = errors.New("the server ended")

// bringUp prepares and starts a server, or waits for one that an interrupted
// start left behind.
func bringUp(ctx context.Context, s server) error {
	if err := os.MkdirAll(s.folder(), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(s.folder(), 0o755); err != nil {
		return err
	}

	if p, ok := findServer(s); ok {
		log.Printf("%s runs as process %d; waiting for its answer", name(s), p.pid)
		return withLogTail(s, awaitReady(ctx, s, p, nil))
	}
	if err := prepare(ctx, s); err != nil {
		return fmt.Errorf("preparing it: %w", err)
	}

	var err error
	for range startAttempts {
		if err = launch(ctx, s); !errors.Is(err, errExited) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return withLogTail(s, err)
}

func prepare(ctx context.Context, s server) error {
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout, fmt.Errorf("not done after %v", prepareTimeout))
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// launch starts the server in a session of its own, so that it outlives this
// command and the terminal, and waits until it answers.
func launch(ctx context.Context, s server) error {
	logFile, err := os.Create(logFile(s))
	if err != nil {
		return err
	}
	defer logFile.Close()

	cmd := s.command()
	cmd.Stdin = nil
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Dir = s.folder()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why
		close(exited)
	}()

	p, err := recordProcess(s.folder(), cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%w: %w", errExited, err)
	}
	return awaitReady(ctx, s, p, exited)
}

// awaitReady waits until the server answers.
func awaitReady(ctx context.Context, s server, p process, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("no answer after %v", readyTimeout))
	defer cancel()
	for {
		err := pingOnce(ctx, s)
		switch {
		case !p.alive():
			return errExited
		case err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-exited:
			return errExited
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func pingOnce(ctx context.Context, s server) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.ping(ctx)
}

func logFile(s server) string { return filepath.Join(s.folder(), "server.log") }

// withLogTail shows the end of the server's log when err is not nil.
func withLogTail(s server, err error) error {
	if err == nil {
		return nil
	}
	content, readErr := os.ReadFile(logFile(s))
	if readErr != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	lines = lines[max(0, len(lines)-logTail):]
	log.Printf("the end of %s:\n\t%s", logFile(s), strings.Join(lines, "\n\t"))
	return err
}
