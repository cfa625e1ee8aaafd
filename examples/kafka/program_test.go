package kafka_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build compiles the three programs and returns their folder.
func build(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", folder+string(filepath.Separator), "./service", "./relay", "./stock")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return folder
}

// program is one of the processes of the example, over all its lives.
type program struct {
	name, path string
	env        []string
	log        *os.File

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // of the present life
}

// newProgram starts a program. It is killed at the end of the test, and its log
// shown if that has failed.
func newProgram(t *testing.T, folder, name string, env ...string) *program {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	p := &program{name: name, path: filepath.Join(folder, name), env: append(os.Environ(), env...), log: log}
	t.Cleanup(func() {
		_ = p.kill() // unless it has been stopped
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("log of the %s (%v):\n%s", name, err, text[max(0, len(text)-8000):])
		}
		log.Close()
	})
	require.NoError(t, p.start())
	return p
}

func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(p.path)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.env, p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	cmd, exited := p.cmd, make(chan struct{})
	p.exited = exited
	go func() {
		_ = cmd.Wait() // ProcessState tells
		close(exited)
	}()
	return nil
}

// end sends a signal and waits for the process, which must have lived until then.
func (p *program) end(signal syscall.Signal, within time.Duration) (*os.ProcessState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return nil, fmt.Errorf("%s ended by itself: %s", p.name, p.cmd.ProcessState)
	default:
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return p.cmd.ProcessState, nil
	case <-time.After(within):
		return nil, fmt.Errorf("%s is still there %s after %s", p.name, within, signal)
	}
}

// kill is a crash.
func (p *program) kill() error {
	_, err := p.end(syscall.SIGKILL, 10*time.Second)
	return err
}

// stop is a graceful stop, and returns the exit status.
func (p *program) stop() (int, error) {
	state, err := p.end(syscall.SIGTERM, 20*time.Second)
	if err != nil {
		return -1, err
	}
	return state.ExitCode(), nil
}

// await asks until the condition holds, or ctx ends.
func await(ctx context.Context, what string, condition func() bool) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
