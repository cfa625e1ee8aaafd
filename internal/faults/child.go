//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// child is a process that this one started. It is signalled by its own handle, which is never another's.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait, to be read when it has ended
}

// spawn starts cmd with its output appended to a file. It is killed with this process.
func spawn(name string, cmd *exec.Cmd, logPath string) (*child, error) {
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // ^C is for this process, which then ends the others
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// signal sends a signal unless the process has ended.
func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }

// end sends a signal and waits for the process to end.
func (c *child) end(sig syscall.Signal, limit time.Duration) error {
	c.signal(sig)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
		return &exitError{c.name, fmt.Sprintf("it runs on %s after %v", limit, sig)}
	}
}

// kill ends the process for sure.
func (c *child) kill() { _ = c.end(syscall.SIGKILL, time.Minute) }

// A process with Pdeathsig gets its signal when the thread ends that started it, so all
// are started by one goroutine that keeps its thread.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for fn := range work {
			fn()
		}
	}()
	return work
})

func start(cmd *exec.Cmd) error {
	err := make(chan error, 1)
	spawner() <- func() { err <- cmd.Start() }
	return <-err
}
