package relay

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func at(part int, seq int64, key string) item {
	return item{Record: gormoutbox.Record{Part: part, Seq: seq, AggregateType: "a", AggregateID: key}}
}

func keyOf(key string) laneKey { return laneKey{"a", key} }

func TestAKeyReleasedInAPartitionThatThePageDidNotReach(t *testing.T) {
	t.Parallel()
	m := newMarks()
	leases := []lease{{part: 1, token: "t", low: 100}, {part: 2, token: "t", low: 100}}
	m.keep(leases)
	m.move(page{covered: map[int]int64{1: 150}, horizon: 1}, settlement{released: map[int]int64{2: 50}}, 1)
	assert.EqualValues(t, 100, m.low(leases[0]))
	assert.EqualValues(t, 49, m.low(leases[1]))
}

func TestMarksBelongToALease(t *testing.T) {
	t.Parallel()
	m := newMarks()
	mine := lease{part: 1, token: "mine", low: 100}
	m.keep([]lease{mine})
	m.fallBack(1, 50)
	m.keep(nil)
	m.keep([]lease{mine})
	assert.EqualValues(t, 49, m.low(mine), "a lease that ran out and was renewed keeps its mark, not that of its claim")
	again := lease{part: 1, token: "again", low: 70}
	assert.EqualValues(t, 70, m.low(again), "saved before the first read")
	m.keep([]lease{again})
	assert.EqualValues(t, 70, m.low(again))
	m.fallBack(1, 61)
	assert.EqualValues(t, 60, m.low(again))
	m.fallBack(9, 1) // not ours
	assert.EqualValues(t, 60, m.minFrom([]lease{again}), "partitions of others don't count")
}

func TestWhatKeepsAMark(t *testing.T) {
	t.Parallel()
	full := page{items: []item{at(1, 10, "k"), at(1, 11, "l"), at(1, 12, "k")}, covered: map[int]int64{1: math.MaxInt64}, horizon: 5}
	empty := page{covered: map[int]int64{1: math.MaxInt64}, horizon: 7}
	for name, test := range map[string]struct {
		s    settlement
		then page
		low  int64
	}{
		"all done":               {settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, empty, 12},
		"one open":               {settlement{done: map[int64]bool{10: true, 12: true}}, empty, 10},
		"held with those behind": {settlement{done: map[int64]bool{11: true}, held: map[laneKey]int64{keyOf("k"): 10}}, empty, 12},
		"held behind an open one": {
			settlement{done: map[int64]bool{11: true}, held: map[laneKey]int64{keyOf("k"): 12}}, empty, 9,
		},
		"a transaction in flight": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, page{covered: empty.covered, horizon: 5}, 0,
		},
		"a later read is not complete": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}},
			page{covered: map[int]int64{1: 9}, horizon: 7},
			0,
		},
		"a bound": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}},
			page{covered: empty.covered, horizon: 7, bounds: map[int]int64{1: 11}},
			0,
		},
		"not reached": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, page{covered: map[int]int64{2: 99}, horizon: 7}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMarks()
			l := lease{part: 1, token: "t"}
			m.keep([]lease{l})
			m.move(full, test.s, 6)
			assert.Zero(t, m.low(l), "a mark waits for a read")
			m.move(test.then, settlement{}, 0)
			assert.Equal(t, test.low, m.low(l))
		})
	}
}

func TestTheListOfWaitingMarksIsBounded(t *testing.T) {
	t.Parallel()
	p := &partMarks{}
	for i := range int64(10 * maxWaiting) {
		p.wait(i+1, i+1)
	}
	require.Len(t, p.waiting, maxWaiting)
	assert.Equal(t, mark{10 * maxWaiting, 10 * maxWaiting}, p.waiting[maxWaiting-1], "the last number with the last stamp")
	assert.True(t, slices.IsSortedFunc(p.waiting, func(a, b mark) int { return int(a.stamp - b.stamp) }))
	p.advance(math.MaxInt64, math.MaxInt64)
	assert.EqualValues(t, 10*maxWaiting, p.low)
}

// TestLowMarksMoveOverWhatIsNotRead: events of others, held ones and published ones, of which a page has none.
func TestLowMarksMoveOverWhatIsNotRead(t *testing.T) {
	t.Parallel()
	m := newMarks()
	l := lease{part: 1, token: "t"}
	m.keep([]lease{l})
	m.moveAtOnce(page{covered: map[int]int64{1: math.MaxInt64}, bounds: map[int]int64{1: 10_000}}, settlement{})
	assert.EqualValues(t, 10_000, m.low(l))
	m.moveAtOnce(page{covered: map[int]int64{1: math.MaxInt64}}, settlement{})
	assert.EqualValues(t, 10_000, m.low(l), "it is not known how far one could see")
}

// TestLowMarksMove: with nothing in flight they reach the end.
func TestLowMarksMove(t *testing.T) {
	t.Parallel()
	m := newMarks()
	l := lease{part: 1, token: "t"}
	m.keep([]lease{l})
	for i := range int64(10) {
		seq := i + 1
		m.move(page{items: []item{at(1, seq, "k")}, covered: map[int]int64{1: math.MaxInt64}, horizon: seq}, settlement{done: map[int64]bool{seq: true}}, seq)
	}
	assert.EqualValues(t, 9, m.low(l))
}
