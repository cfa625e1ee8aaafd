//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockVariable tells a program of buildSkewed by how many seconds its clock is off.
const clockVariable = "OUTBOX_FAULTS_CLOCK"

// A clock is off by at least so much, and at most by three days.
const leastSkew = time.Hour

// The places of package time which a program with a wrong clock has otherwise. Only the time of day is wrong: the monotonic
// clock, by which timers and deadlines go, is no other than on a machine whose clock is set wrong.
const (
	rightClock = "sec, nsec, mono := runtimeNow()\n"
	wrongClock = rightClock + "\tsec += skew\n"
	skewSource = `package time

import "syscall"

var skew = func() (n int64) {
	text, _ := syscall.Getenv("` + clockVariable + `")
	for _, c := range text {
		if c != '-' {
			n = 10*n + int64(c-'0')
		}
	}
	if text != "" && text[0] == '-' {
		n = -n
	}
	return n
}()
`
)

// buildSkewed builds this program once more, into folder, with the variable's clock. One cannot preload another clock for a
// program in Go, which asks the kernel without a library.
func buildSkewed(ctx context.Context, folder string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("asking for GOROOT: %w", err)
	}
	timeFolder := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(timeFolder, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), rightClock) != 1 {
		return "", fmt.Errorf("time.Now of this Go does not have the one line %q, so no other clock can be put there", strings.TrimSpace(rightClock))
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range map[string]string{"time.go": strings.Replace(string(source), rightClock, wrongClock, 1), "skew.go": skewSource} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(timeFolder, name)] = path
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(folder, "skewed")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", path, "-o", program, "github.com/gormoutbox/outbox/internal/faults")
	if err := quietly(build); err != nil {
		return "", fmt.Errorf("building with a wrong clock (in the folder of the module): %w", err)
	}
	return program, nil
}

// environment sets the clock of a process.
func (r role) environment() []string {
	if r.Clock == 0 {
		return nil
	}
	return []string{clockVariable + "=" + strconv.FormatInt(int64(r.Clock/time.Second), 10)}
}

// openNotes opens the file of notes, and leaves one if this process and the kernel, which dates files, do not agree about the time.
func (r role) openNotes() (*os.File, error) {
	notes, err := os.OpenFile(r.Notes, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = notes.WriteString("began\n")
	info, statErr := notes.Stat()
	if err = errors.Join(err, statErr); err == nil && time.Until(info.ModTime()).Abs() > leastSkew/2 {
		_, err = notes.WriteString(noteOfClock + "\n")
	}
	if err != nil {
		return nil, errors.Join(err, notes.Close())
	}
	return notes, nil
}

const noteOfClock = "its clock is wrong"

// clockOff has a process stop, one with another clock in its place for some leases, and then one with the right clock again.
func clockOff(ctx context.Context, h *harness, random *rand.Rand, t *team, i int) error {
	skew := between(random, leastSkew, 72*time.Hour)
	if random.IntN(2) == 0 {
		skew = -skew
	}
	for _, clock := range []time.Duration{skew, 0} {
		if err := t.stop(i); err != nil {
			return err
		}
		t.slots[i].clock = clock
		if err := t.start(i); err != nil {
			return err
		}
		if clock != 0 {
			h.mu.Lock()
			h.skewed++
			h.mu.Unlock()
			wait(ctx, between(random, 2*h.lease, 5*h.lease))
		}
	}
	return nil
}
