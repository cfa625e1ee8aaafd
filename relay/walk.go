package relay

import (
	"fmt"
	"strings"
)

// walk goes on behind a full page instead of from the low marks again, which would pass over all that was published
// since. It ends with the highest number that could be seen when it began: an event above
// may stand behind one of its aggregate that was committed too late to be seen at the begin, and that has
// a number which the walk has passed. Such an event drew its number after that commit, so the next walk finds both.
//
// What a walk shows about the low marks is what its first read could see.
type walk struct {
	leases  string
	cursor  int64
	high    int64
	horizon int64
	bounds  map[int]int64
}

// signature tells leases from others.
func signature(leases []lease) string {
	var b strings.Builder
	for _, l := range leases {
		fmt.Fprintf(&b, "%d %s,", l.part, l.token)
	}
	return b.String()
}

// onward returns the walk that goes on, nil if the read is to begin at the low marks. It is forgotten, since a
// pass that fails has left events behind it.
func (m *marks) onward(leases []lease) *walk {
	w := m.walk
	m.walk = nil
	if w == nil || w.leases != signature(leases) {
		return nil
	}
	return w
}

// walked says whether the walk of a page goes on behind it: if it was full, and all of it is settled or held.
func (m *marks) walked(p page, s settlement) {
	m.full = p.full
	w := p.walk
	if w == nil || !p.full || len(s.released) > 0 || len(s.lost) > 0 || len(firstOpen(p, s)) > 0 {
		return
	}
	w.cursor = p.items[len(p.items)-1].Seq
	m.walk = w
}
