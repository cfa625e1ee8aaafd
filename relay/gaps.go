package relay

import (
	"slices"
	"sort"
	"time"
)

// maxGaps bounds how many ranges of numbers are watched; each costs a look into an index with each read. Neighbours are merged beyond.
const maxGaps = 1000

// gaps are the numbers of MySQL and MariaDB below the low marks of which a row may still appear: those of rows that open transactions have
// written, and those that were drawn and of which no row can be seen. The latter is the rule after a rollback, so they are
// forgotten when no row has appeared for Config.SettleWindow. Each read looks at them, too, in the same snapshot.
type gaps struct {
	window time.Duration
	most   int
	ranges []gap // in order
}

type gap struct {
	low, high int64
	since     time.Time
}

// survey is what two looks at the numbers of (from, to] and of the gaps found, one after the other.
type survey struct {
	from, to int64
	// whole says that each of these numbers has a committed row; they are not listed then, but in gaps. more says that to is where the look ended,
	// not the table.
	whole, more bool
	// written are those of rows of all transactions, ended or not.
	written []int64
	// committed are those that could be seen as committed a moment later, in order, and pending those of them in gaps that are to be read.
	committed []int64
	pending   map[int64]bool
}

// update learns from a survey. After it every row up to s.to is watched that could not be seen, or that was watched before and is still pending:
// the low mark of its partition may be above it.
func (g *gaps) update(s survey, now time.Time) {
	rows := slices.Concat(s.written, s.committed)
	slices.Sort(rows)
	rows = slices.Compact(rows)
	var out []gap
	look := func(low, high int64, since time.Time, watched bool) {
		next := low
		for _, seq := range append(between(rows, low, high), high+1) {
			if left := (gap{next, seq - 1, since}); left.low <= left.high && (!watched || now.Sub(since) <= g.window) {
				out = append(out, left)
			}
			next = seq + 1
			if _, ok := slices.BinarySearch(s.committed, seq); seq <= high && (!ok || watched && s.pending[seq]) {
				out = append(out, gap{seq, seq, now})
			}
		}
	}
	next := s.from + 1
	for _, old := range g.ranges {
		if high := min(old.low-1, s.to); next <= high && !s.whole {
			look(next, high, now, false)
		}
		if old.low <= s.to {
			look(old.low, min(old.high, s.to), old.since, true)
		}
		if old.high > s.to { // it was not looked at
			out = append(out, gap{max(old.low, s.to+1), old.high, old.since})
		}
		next = max(next, old.high+1)
	}
	if next <= s.to && !s.whole {
		look(next, s.to, now, false)
	}
	g.ranges = merge(out, g.most)
}

// merge makes at most so many gaps of neighbours. What stands between them is looked at in vain, as it is without gaps where
// numbers are missing by the rule, with auto_increment_increment or beside relays that delete what they publish.
func merge(gaps []gap, most int) []gap {
	if len(gaps) <= most {
		return gaps
	}
	size := (len(gaps) + most - 1) / most
	out := make([]gap, 0, most)
	for some := range slices.Chunk(gaps, size) {
		one := gap{some[0].low, some[len(some)-1].high, some[0].since}
		for _, g := range some {
			if g.since.After(one.since) {
				one.since = g.since
			}
		}
		out = append(out, one)
	}
	return out
}

// between are the numbers of a sorted list from low to high.
func between(rows []int64, low, high int64) []int64 {
	begin, _ := slices.BinarySearch(rows, low)
	end, _ := slices.BinarySearch(rows, high+1)
	return slices.Clip(rows[begin:max(begin, end)])
}

// below are the gaps up to a number, beyond which a read looks anyway.
func (g *gaps) below(seq int64) (out []gap) {
	for _, r := range g.ranges {
		if r.low <= seq {
			out = append(out, gap{low: r.low, high: min(r.high, seq)})
		}
	}
	return out
}

// endOf is seq, or the end of the gap in which it is. A page must not end there unless its last event does: the rows of one INSERT
// may appear in the gap all at once, and then those behind the page would be found before those that it passed.
func (g *gaps) endOf(seq int64) int64 {
	i := sort.Search(len(g.ranges), func(i int) bool { return g.ranges[i].high >= seq })
	if i == len(g.ranges) || g.ranges[i].low > seq {
		return seq
	}
	for seq = g.ranges[i].high; i+1 < len(g.ranges) && g.ranges[i+1].low == seq+1; i++ {
		seq = g.ranges[i+1].high
	}
	return seq
}

// first is the least number that is watched, or most if there is none.
func (g *gaps) first(most int64) int64 {
	if len(g.ranges) == 0 {
		return most
	}
	return g.ranges[0].low
}

// belowInFlight is the number up to which everything that was written was committed.
func (s *survey) belowInFlight() int64 {
	for _, seq := range s.written {
		if _, ok := slices.BinarySearch(s.committed, seq); !ok && seq > s.from {
			return min(seq-1, s.to)
		}
	}
	return s.to
}
