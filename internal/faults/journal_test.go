//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(path)
	require.NoError(t, err)
	rows := func(nonce string, version int64) []account {
		return []account{{ID: 7, Version: version, Nonce: nonce}}
	}
	require.NoError(t, j.intend("t1", rows("a", 1)))
	require.NoError(t, j.intend("t2", rows("b", 2)))
	require.NoError(t, j.ended("t1", true))
	require.NoError(t, j.ended("t2", false))
	require.NoError(t, j.intend("t3", rows("c", 2)))
	require.NoError(t, j.file.Close())

	checker := relaytest.NewChecker(relaytest.Config{})
	var events []relaytest.Event
	require.NoError(t, readJournal(path, checker, func(e relaytest.Event) { events = append(events, e) }))
	assert.Equal(t, []relaytest.Event{
		{ID: "a", AggregateType: "account", AggregateID: "7", Position: 1},
		{ID: "b", AggregateType: "account", AggregateID: "7", Position: 2},
		{ID: "c", AggregateType: "account", AggregateID: "7", Position: 2},
	}, events)
	r := checker.Report()
	assert.Equal(t, [3]int{1, 1, 1}, [3]int{r.Committed, r.RolledBack, r.Unknown})

	require.NoError(t, os.WriteFile(path, []byte("what is this\n"), 0o600))
	var wrong *journalError
	require.ErrorAs(t, readJournal(path, checker, func(relaytest.Event) {}), &wrong)
}
