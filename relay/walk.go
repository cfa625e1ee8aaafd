package relay

import (
	"fmt"
	"math"
	"strings"
)

// walk goes on behind a full page instead of from the low marks again, which would pass over all that was published
// since, and without waiting for the page to be settled.
//
// It must not find an event whose predecessor, of the same aggregate, was committed too late to be seen when the walk passed it. If that one is of
// another transaction, the event drew its number after that commit, so it is above the highest number that could be seen when the
// walk began, where the walk ends. If both are of one transaction, it was open when the walk began: PostgreSQL tells of each event
// whether its transaction was, and the walk ends before the first such one; on MySQL it ends before the first number in flight.
// The next walk finds both.
//
// What a walk shows about the low marks is what its first read could see.
type walk struct {
	leases  string
	high    int64
	horizon int64
	bounds  map[int]int64
	// more says that there is more behind its end (MySQL).
	more bool
	// snapshot is what its begin could see, and from where its partitions are read from (PostgreSQL).
	snapshot string
	from     []place
	// pages is how many the walk has at most, 0 without a limit.
	pages int
}

// walkPages is how long a walk is on PostgreSQL and MySQL. What was committed late waits for its end; on PostgreSQL, the read after it passes once over what
// it has published.
const walkPages = 64

// maxWidth bounds the window of a page, unless more events are asked for.
const maxWidth = 16_000

// signature tells leases from others.
func signature(leases []lease) string {
	var b strings.Builder
	for _, l := range leases {
		fmt.Fprintf(&b, "%d %s,", l.part, l.token)
	}
	return b.String()
}

// goesOn says whether there is a page behind this one in its walk.
func (p *page) goesOn() bool {
	return p.walk != nil && p.full && len(p.rest) > 0 && (p.walk.pages == 0 || p.nth+1 < p.walk.pages)
}

// endsEarly says that the walk of a page ends where nobody has looked further.
func (p *page) endsEarly() bool { return p.walk != nil && p.walk.more }

// follow begins the page behind this one.
func (p *page) follow() page {
	w := p.walk
	return page{walk: w, nth: p.nth + 1, horizon: w.horizon, bounds: w.bounds, covered: map[int]int64{}}
}

// cover says how far a page goes that was read partition by partition: those before the last one of a full page
// were read to their end, those behind it not at all.
func (p *page) cover(from []place, limit int, cut bool) {
	p.full = cut || len(p.items) >= limit
	for _, at := range from {
		if last := len(p.items) - 1; p.full && at.part == p.items[last].Part {
			p.covered[at.part] = p.items[last].Seq
			return
		}
		p.covered[at.part] = math.MaxInt64
	}
}

// coverWindow says how far a page goes that was read by number, above begin and up to to. If stop is not -1 it ends before that
// event, and the walk with it. The next window is as wide as this one was for each event, times as many events as there is room for; but not much wider, since
// all of a window is read and sorted: behind many that are published there may be many that are not.
func (p *page) coverWindow(leases []lease, begin, to int64, limit int, cut bool, stop int64) {
	if n := len(p.items); n > 0 && (cut || n >= limit) {
		to = p.items[n-1].Seq
	}
	if stop >= 0 {
		to = stop - 1
	}
	for _, l := range leases {
		p.covered[l.part] = to
	}
	if p.full = stop < 0 && to < p.walk.high; p.full {
		p.rest = []place{{seq: to}}
		n, took := int64(limit), min(to-begin, math.MaxInt32) // numbers may have jumped
		p.width = max(n, min(took*n/int64(max(len(p.items), 1)), 4*took, maxWidth))
	}
}

// widthOf notes how many numbers a full page took that was read by number without a window, above begin.
func (p *page) widthOf(begin int64) {
	if p.full && len(p.rest) > 0 {
		p.width = min(p.rest[0].seq-begin, maxWidth)
	}
}

// coverAll says how far a page goes that was read by number, up to to.
func (p *page) coverAll(leases []lease, to int64, limit int, cut bool) {
	if p.full = cut || len(p.items) >= limit; p.full {
		to = p.items[len(p.items)-1].Seq
		p.rest = []place{{seq: to}}
	}
	for _, l := range leases {
		p.covered[l.part] = to
	}
}

// onward returns the page behind which a walk goes on, nil if the read is to begin at the low marks. It is forgotten, since a
// pass that fails has left events behind it.
func (m *marks) onward(leases []lease) *page {
	p := m.behind
	m.behind = nil
	if p == nil || p.walk.leases != signature(leases) {
		return nil
	}
	return p
}

// walked says whether the walk of a page goes on behind it: if it was full, and all of it is settled or held.
func (m *marks) walked(p page, s settlement) bool {
	m.full, m.behind = p.full || p.endsEarly(), nil
	if !p.goesOn() || len(s.released) > 0 || len(s.lost) > 0 || len(firstOpen(p, s)) > 0 {
		return false
	}
	p.items = nil
	m.behind = &p
	return true
}
