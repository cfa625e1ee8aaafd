//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	_, err := run(t.Context(), options{database: "postgres", kinds: []string{"flood"}, progress: t.Output()})
	var kind *kindError
	require.ErrorAs(t, err, &kind)
	_, err = run(t.Context(), options{database: "oracle", progress: t.Output()})
	require.ErrorContains(t, err, "oracle")
}

// TestResults: what counts as broken, beside what the checker finds.
func TestResults(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	r := &result{steps: []step{
		{kinds: kinds[:1], Window: relaytest.Window{Name: "relay killed", Cause: relaytest.Crash, From: second(0), To: second(9)}},
		{Window: relaytest.Window{Name: "end", Cause: relaytest.Graceful, From: second(10), To: second(19)}},
	}}
	at := func(n int) relaytest.Duplicate {
		return relaytest.Duplicate{Delivery: relaytest.Delivery{At: second(n)}}
	}
	assert.Equal(t, relaytest.Crash, r.attribute(at(5)))
	assert.Equal(t, relaytest.Graceful, r.attribute(at(15)))
	assert.Equal(t, relaytest.Unexplained, r.attribute(at(25)))
	assert.Equal(t, 1, r.steps[0].duplicates)
	assert.Equal(t, 2*batchSize, r.steps[0].most())
	require.NoError(t, r.err())
	r.wrong = []error{&stalledError{"x", 3}}
	require.Error(t, r.err())
	assert.Contains(t, r.markdown(), "after x 3 events stay pending")
	assert.Contains(t, r.markdown(), "| relay killed | 1 | 1 | those in flight |")
}
