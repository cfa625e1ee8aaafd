//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startSleeper runs a process whose command line mentions folder.
func startSleeper(t *testing.T, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", `sleep 60 & trap 'kill $!; exit' TERM; wait`, folder)
	require.NoError(t, cmd.Start())
	reaped := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(reaped)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-reaped
	})
	return cmd
}

func TestProcessIsFoundAndStopped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cmd := startSleeper(t, folder)

	p, err := recordProcess(folder, cmd.Process.Pid)
	require.NoError(t, err)
	found, ok := findProcess(folder)
	require.True(t, ok)
	assert.Equal(t, p, found)

	require.NoError(t, found.stop(t.Context(), syscall.SIGKILL))
	_, ok = findProcess(folder)
	assert.False(t, ok)
	assert.NoError(t, found.stop(t.Context(), syscall.SIGTERM), "stopping again")
}

func TestProcessIsFoundByItsArguments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cmd := startSleeper(t, folder)
	found := func() bool {
		p, ok := searchProcess(folder, cmd.Args)
		return ok && p.pid == cmd.Process.Pid && p.alive()
	}
	// Start returns before the child's arguments can be seen.
	require.Eventually(t, found, 10*time.Second, time.Millisecond)

	_, ok := searchProcess(folder, append(cmd.Args, "more"))
	assert.False(t, ok)
	_, ok = searchProcess(folder, cmd.Args[:len(cmd.Args)-1])
	assert.False(t, ok)
}

func TestForeignProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), t.TempDir()
	cmd := startSleeper(t, other)
	pid := strconv.Itoa(cmd.Process.Pid)
	started, ok := startTime(cmd.Process.Pid)
	require.True(t, ok)

	for name, content := range map[string]string{
		"our pid went to a process started later": pid + " 1\n",
		"same start time, another folder":         pid + " " + started + "\n",
		"no start time":                           pid + "\n",
		"empty":                                   "",
		"not a number":                            "x y\n",
		"everybody":                               "-1 " + started + "\n",
		"init":                                    "1 " + started + "\n",
		"no such process":                         "4194305 5\n",
	} {
		require.NoError(t, os.WriteFile(pidFile(folder), []byte(content), 0o600))
		_, ok := findProcess(folder)
		assert.False(t, ok, name)
	}
}
