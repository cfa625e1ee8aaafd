package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/pause"
)

const (
	// RabbitMQ takes many seconds on a machine that does other things, too.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
)

// server is a process of one test.
type server struct {
	name    string
	folder  string
	command func() *exec.Cmd
	ping    func(context.Context) error // nil if there is nothing to wait for

	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

// program returns the path of a server's program. Without it the test is skipped, but in CI it fails.
func program(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; run it by \"make brokers\"", err)
		}
		t.Skipf("%v; run \"make brokers\", as root on Debian", err)
	}
	return path
}

// run starts the server and stops it at the end of the test.
func (s *server) run(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		assert.NoError(t, s.stop())
		if t.Failed() {
			log, err := os.ReadFile(s.log())
			t.Logf("the end of the log of %s (%v):\n%s", s.name, err, log[max(0, len(log)-4000):])
		}
	})
	require.NoError(t, s.start(t.Context()))
}

func (s *server) log() string { return filepath.Join(s.folder, s.name+".out") }

// start starts the process and returns when it answers.
func (s *server) start(ctx context.Context) error {
	out, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close() // the process has its own
	s.cmd = s.command()
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.folder, out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not its own
	if err := s.cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	s.gone = gone
	go func() {
		defer close(gone)
		_ = s.cmd.Wait() // how it ended does not matter, stop and kill end it
	}()

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for s.ping != nil {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("%s ended at once: %w", s.name, err)
		default:
		}
		if !pause.Sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s does not answer: %w", s.name, err)
		}
	}
	return nil
}

// kill ends the process as a crash does. Nothing is left of it when it returns.
func (s *server) kill() error { return s.end(syscall.SIGKILL) }

func (s *server) stop() error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// end sends the signal to the process and what it has started, and waits for it.
func (s *server) end(sig syscall.Signal) error {
	if s.gone == nil {
		return nil // it never started
	}
	if err := syscall.Kill(-s.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-s.gone:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s runs on after %v", s.name, sig)
	}
}

// freePort returns a port of 127.0.0.1 that nobody has. It is below those that the kernel gives to connections: a client that tries to
// connect again while the server is away could get the server's port as its own, and would then keep it.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(10000)
		if l, err := net.Listen("tcp", address(port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
