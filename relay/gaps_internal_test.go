package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestGaps(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	later := begin.Add(time.Minute)
	g := gaps{window: time.Minute, most: 100}
	g.update(survey{from: 10, to: 20, written: []int64{11, 12, 15, 20}, committed: []int64{11, 15, 20}}, begin)
	assert.Equal(t, []gap{{12, 12, begin}, {13, 14, begin}, {16, 19, begin}}, g.ranges, "in flight, and not written")
	assert.Equal(t, []gap{{low: 12, high: 12}, {low: 13, high: 13}}, g.below(13))
	assert.EqualValues(t, 12, g.first(99))

	// One is committed and to be read, one committed and not to be read, one written.
	g.update(survey{from: 20, to: 20, written: []int64{12, 13, 18}, committed: []int64{12, 13}, pending: map[int64]bool{12: true}}, later)
	assert.Equal(t, []gap{{12, 12, later}, {14, 14, begin}, {16, 17, begin}, {18, 18, later}, {19, 19, begin}}, g.ranges)

	g.update(survey{from: 20, to: 20, written: []int64{18}}, later.Add(time.Second))
	assert.Equal(t, []gap{{12, 12, later}, {18, 18, later.Add(time.Second)}}, g.ranges, "of the others nothing has come for a minute")

	// A survey that begins below and does not reach all of them. What is pending is watched on: its partition's mark may be above.
	g.update(survey{from: 11, to: 15, written: []int64{12, 13}, committed: []int64{12, 13}, pending: map[int64]bool{12: true}}, later)
	assert.Equal(t, []gap{{12, 12, later}, {14, 15, later}, {18, 18, later.Add(time.Second)}}, g.ranges)
	assert.EqualValues(t, 99, (&gaps{}).first(99))
}

func TestMoreGapsThanAreWatched(t *testing.T) {
	t.Parallel()
	early := time.Now()
	late := early.Add(time.Second)
	gaps := []gap{{2, 2, early}, {4, 4, late}, {6, 6, early}, {8, 8, early}, {10, 12, late}}
	assert.Equal(t, gaps, merge(gaps, 5))
	assert.Equal(t, []gap{{2, 4, late}, {6, 8, early}, {10, 12, late}}, merge(gaps, 4), "for as long as the younger one")
	assert.Equal(t, []gap{{2, 12, late}}, merge(gaps, 1))
}

func TestWhereAWalkEnds(t *testing.T) {
	t.Parallel()
	s := survey{from: 10, to: 20, written: []int64{5, 11, 12, 18, 20}, committed: []int64{11, 12, 18, 20}}
	assert.EqualValues(t, 20, s.belowInFlight(), "one below is none of its business")
	s.committed = []int64{11, 12, 20}
	assert.EqualValues(t, 17, s.belowInFlight())
}

func TestTheEndOfAGap(t *testing.T) {
	t.Parallel()
	g := gaps{ranges: []gap{{low: 5, high: 9}, {low: 20, high: 20}, {low: 21, high: 25}, {low: 27, high: 30}}}
	for seq, want := range map[int64]int64{1: 1, 4: 4, 5: 9, 7: 9, 9: 9, 10: 10, 19: 19, 20: 25, 24: 25, 26: 26, 28: 30, 31: 31} {
		assert.Equal(t, want, g.endOf(seq), "%d", seq)
	}
}
