package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The table in the documentation is that of the suite.
func TestTableIsUpToDate(t *testing.T) {
	t.Parallel()
	require.NoError(t, run("../../docs/capture.md", true))

	stale := filepath.Join(t.TempDir(), "capture.md")
	require.NoError(t, os.WriteFile(stale, []byte("a\n"+begin+"STALE\n"+end+"z\n"), 0o600))
	require.ErrorContains(t, run(stale, true), "not up to date")
	require.NoError(t, run(stale, false))
	require.NoError(t, run(stale, true))
	text, err := os.ReadFile(stale)
	require.NoError(t, err)
	assert.Contains(t, string(text), "| C01 |")
	assert.NotContains(t, string(text), "STALE")

	require.NoError(t, os.WriteFile(stale, []byte("no marks"), 0o600))
	require.ErrorContains(t, run(stale, false), "marks")
}
