//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long a server may take to end before it is killed.
const stopTimeout = 30 * time.Second

// process is a server started by this command, maybe by an earlier run of it.
type process struct {
	pid int
	// started is the start time in clock ticks since boot: a pid alone may
	// meanwhile belong to somebody else.
	started string
	folder  string
}

func pidFile(folder string) string { return filepath.Join(folder, "pid") }

// recordProcess writes the pid file of a server.
func recordProcess(folder string, pid int) (process, error) {
	started, ok := startTime(pid)
	if !ok {
		return process{}, fmt.Errorf("process %d ended at once", pid)
	}
	line := fmt.Sprintf("%d %s\n", pid, started)
	return process{pid, started, folder}, os.WriteFile(pidFile(folder), []byte(line), 0o644)
}

// findServer returns the running process of a server. Without a pid file it
// searches: a start that was killed may have begun the server and no more.
func findServer(s server) (process, bool) {
	if p, ok := findProcess(s.folder()); ok {
		return p, true
	}
	return searchProcess(s.folder(), s.command().Args)
}

// searchProcess returns the process with exactly these arguments.
func searchProcess(folder string, args []string) (process, bool) {
	want := strings.Join(args, "\x00") + "\x00"
	files, _ := filepath.Glob("/proc/[1-9]*/cmdline") // the pattern is correct
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil || string(cmdline) != want {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if started, ok := startTime(pid); ok && mentions(pid, folder) {
			return process{pid, started, folder}, true
		}
	}
	return process{}, false
}

// findProcess returns the running process that a folder's pid file names.
func findProcess(folder string) (process, bool) {
	content, err := os.ReadFile(pidFile(folder))
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(content))
	if len(fields) != 2 {
		return process{}, false // torn by a crash
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil || pid <= 1 {
		return process{}, false
	}
	p := process{pid, fields[1], folder}
	return p, p.alive()
}

// alive reports whether this very process still runs.
func (p process) alive() bool {
	started, ok := startTime(p.pid)
	return ok && started == p.started && mentions(p.pid, p.folder)
}

// stop ends the process and waits until it is gone.
func (p process) stop(ctx context.Context, sig syscall.Signal) error {
	if err := p.signalAndWait(ctx, sig, stopTimeout); err == nil || ctx.Err() != nil {
		return err
	}
	return p.signalAndWait(ctx, syscall.SIGKILL, stopTimeout)
}

func (p process) signalAndWait(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("process %d runs on after %v", p.pid, sig))
	defer cancel()
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for p.alive() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// startTime returns field 22 of /proc/PID/stat, and whether the process
// exists and is more than a zombie.
func startTime(pid int) (string, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// Field 2 is the program's name in parentheses, with any bytes in it: the
	// fields after it are counted from 3.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, starttime = 0, 22 - 3
	if len(fields) <= starttime || fields[state] == "Z" || fields[state] == "X" {
		return "", false
	}
	return fields[starttime], true
}

// mentions reports whether folder occurs in the process's command line and
// means the same to it: containers and chroots have folders of their own
// under the same names.
func mentions(pid int, folder string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(cmdline, []byte(folder)) {
		return false
	}
	ours, err := os.Stat(folder)
	if err != nil {
		return false
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, folder))
	return err == nil && os.SameFile(ours, theirs)
}
