package relay

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHowFarAPageGoes(t *testing.T) {
	t.Parallel()
	from := []place{{1, 0}, {2, 0}, {3, 0}}
	p := page{covered: map[int]int64{}, items: []item{at(1, 7, "k"), at(2, 5, "l")}}
	p.cover(from, 2, false)
	assert.Equal(t, map[int]int64{1: math.MaxInt64, 2: 5}, p.covered, "the third was not reached")
	assert.True(t, p.full)

	p.covered = map[int]int64{}
	p.cover(from, 3, false)
	assert.Equal(t, map[int]int64{1: math.MaxInt64, 2: math.MaxInt64, 3: math.MaxInt64}, p.covered)
	assert.False(t, p.full)

	p.covered = map[int]int64{}
	p.cover(from, 3, true)
	assert.Equal(t, map[int]int64{1: math.MaxInt64, 2: 5}, p.covered, "cut short by its bytes")
}

func TestHowFarAWindowGoes(t *testing.T) {
	t.Parallel()
	leases := []lease{{part: 1}, {part: 2}}
	for name, test := range map[string]struct {
		items []item
		to    int64
		limit int
		cut   bool
		stop  int64
		// what is expected
		covered, width int64
		goesOn         bool
	}{
		"part of the way":        {[]item{at(1, 105, "k")}, 150, 10, false, -1, 150, 200, true},
		"sparse":                 {[]item{at(1, 105, "k"), at(1, 106, "k"), at(1, 107, "k"), at(1, 108, "k"), at(1, 109, "k")}, 150, 10, false, -1, 150, 100, true},
		"never too wide":         {nil, 30_100, 10, false, -1, 30_100, maxWidth, true},
		"but as was asked for":   {nil, 30_100, 20_000, false, -1, 30_100, 20_000, true},
		"all of the way":         {[]item{at(1, 105, "k")}, 200, 10, false, -1, 200, 0, false},
		"as much as was wanted":  {[]item{at(1, 105, "k"), at(2, 120, "l")}, 150, 2, false, -1, 120, 20, true},
		"cut short":              {[]item{at(1, 105, "k"), at(2, 120, "l")}, 200, 9, true, -1, 120, 80, true},
		"nothing in the window":  {nil, 150, 10, false, -1, 150, 200, true},
		"an event unseen before": {[]item{at(1, 105, "k")}, 150, 10, false, 140, 139, 0, false},
		"and the page is full":   {[]item{at(1, 105, "k")}, 150, 1, false, 140, 139, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page{covered: map[int]int64{}, items: test.items, walk: &walk{high: max(200, 2*test.to-300)}}
			p.coverWindow(leases, 100, test.to, test.limit, test.cut, test.stop)
			assert.Equal(t, map[int]int64{1: test.covered, 2: test.covered}, p.covered)
			assert.Equal(t, test.width, p.width)
			assert.Equal(t, test.goesOn, p.goesOn())
			if test.goesOn {
				assert.Equal(t, []place{{seq: test.covered}}, p.rest)
			}
		})
	}
}

func TestAWalkHasSoManyPages(t *testing.T) {
	t.Parallel()
	p := page{walk: &walk{pages: 2}, full: true, rest: []place{{seq: 1}}}
	assert.True(t, p.goesOn())
	p = p.follow()
	p.full, p.rest = true, []place{{seq: 2}}
	assert.False(t, p.goesOn())
	p.walk.pages = 0
	assert.True(t, p.goesOn(), "without a limit")
}

// TestAWalkThatEndsEarly is followed by another one.
func TestAWalkThatEndsEarly(t *testing.T) {
	t.Parallel()
	m := newMarks()
	leases := []lease{{part: 1, token: "t"}}
	m.keep(leases)
	p := page{covered: map[int]int64{1: 5}, walk: &walk{leases: signature(leases), high: 5, more: true}}
	assert.False(t, m.walked(p, settlement{}), "it has no further page")
	assert.True(t, m.full)
	p.walk.more = false
	assert.False(t, m.walked(p, settlement{}))
	assert.False(t, m.full)
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	s, err := parseSnapshot("10:20:10,15")
	require.NoError(t, err)
	assert.Equal(t, snapshot{20, []int64{10, 15}}, s)
	assert.True(t, s.running(15))
	assert.False(t, s.running(11))
	assert.False(t, s.running(25), "one of a server that is no more")
	s, err = parseSnapshot("10:10:")
	require.NoError(t, err)
	assert.Equal(t, snapshot{end: 10}, s)
	for _, text := range []string{"", "1:2", "1:x:", "1:2:y", "1:2:3:4"} {
		_, err := parseSnapshot(text)
		assert.ErrorContains(t, err, "is no snapshot", text)
	}
}

func TestBystandersAreThoseOpenForLong(t *testing.T) {
	t.Parallel()
	r := newPostgresReader(&store{})
	now := r.now()
	l := lease{part: 1, token: "t", low: 100}
	r.keep([]lease{l})
	open := snapshot{end: 20, open: []int64{7, 15}}
	r.age(open, r.seen, now)
	assert.EqualValues(t, 7, r.horizon(open), "all are waited for")
	r.age(snapshot{end: 30, open: []int64{7}}, r.seen, now.Add(bystanderAfter-1))
	r.age(open, r.seen, now.Add(bystanderAfter))
	assert.EqualValues(t, 15, r.horizon(open), "the other one has ended in between")
	r.parts[1].low = 200
	assert.EqualValues(t, 200, r.from(l))
	assert.EqualValues(t, 100, r.marks.low(l), "what is saved")
	assert.False(t, r.endBystanders(open))
	assert.True(t, r.endBystanders(snapshot{end: 40}))
	assert.EqualValues(t, 100, r.from(l), "reading begins again where the mark stood")
	assert.False(t, r.endBystanders(snapshot{end: 40}))

	for xid := range int64(2 * maxBystanders) {
		r.passBy(xid)
	}
	assert.Len(t, r.bystanders, maxBystanders)
}
