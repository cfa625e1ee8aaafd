package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func TestRatiosArePairedByRound(t *testing.T) {
	t.Parallel()
	m := measured{
		"base": {{perSecond: 100}, {perSecond: 50}, {perSecond: 10}},
		"ours": {{perSecond: 50}, {perSecond: 25}, {perSecond: 40}},
	}
	ratios := m.ratios("ours", "base", perSecond)
	assert.Equal(t, []float64{0.5, 0.5, 4}, ratios)
	assert.InDelta(t, 0.5, median(ratios), 1e-9)
	assert.InDelta(t, 1.5, median([]float64{1, 2}), 1e-9)
	assert.Equal(t, []float64{100, 50, 10}, m.of("base", perSecond), "what was measured stays")
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0.00", 0.126: "0.13", 99.5: "99.50", 100: "100", 999.9: "1,000", 1234567: "1,234,567"} {
		assert.Equal(t, want, number(v))
	}
}

func TestPartitionsAreThoseOfThePlugin(t *testing.T) {
	t.Parallel()
	for i, part := range (events{aggregate: "a", keys: 50}).partitions() {
		assert.Equal(t, gormoutbox.Partition("a", strconv.Itoa(i), gormoutbox.DefaultPartitions), part)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b"}
	all, err := choose("", names)
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"a": true, "b": true}, all)
	one, err := choose("b", names)
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"b": true}, one)
	_, err = choose("a,c", names)
	assert.Error(t, err)
}
