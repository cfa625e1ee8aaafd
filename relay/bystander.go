package relay

import "time"

const (
	// bystanderAfter is how long a transaction is waited for before it becomes a bystander.
	bystanderAfter = 200 * time.Millisecond
	// maxBystanders bounds how many there are: each makes the relay read again when it ends. What is beyond keeps the low marks.
	maxBystanders = 64
)

// A bystander is a transaction that stays open for long. It would keep the low marks of PostgreSQL where they are, although most such never write
// to the outbox. So the marks no longer wait for it, but remember where they stood, and when it has ended, before anything else is
// published, reading begins there again.
//
// Why that is enough: marks moved only past what had ended, so a transaction that is open has no event at or below the low mark
// of the moment in which it becomes a bystander.

// passBy remembers where the low mark stands now.
func (p *partMarks) passBy(xid int64) {
	if p.bounds == nil {
		p.bounds = map[int64]int64{}
	}
	if _, ok := p.bounds[xid]; !ok {
		p.bounds[xid] = p.low
	}
}

// passBy makes the marks go on without a transaction, unless there are too many of them.
func (m *marks) passBy(xid int64) {
	if _, ok := m.bystanders[xid]; ok || len(m.bystanders) >= maxBystanders {
		return
	}
	m.bystanders[xid] = struct{}{}
	for _, p := range m.parts {
		p.passBy(xid)
	}
}

// endBystanders looks which bystanders have ended in a snapshot, and begins again where the marks stood. It says
// false if none has: then the page of that snapshot is good.
func (m *marks) endBystanders(s snapshot) (again bool) {
	for xid := range m.bystanders {
		if s.running(xid) {
			continue
		}
		again = true
		delete(m.bystanders, xid)
		for _, p := range m.parts {
			if bound, ok := p.bounds[xid]; ok {
				p.low = min(p.low, bound)
				delete(p.bounds, xid)
			}
		}
	}
	return again
}

// age remembers since when transactions are open, and makes bystanders of those that are for long.
func (m *marks) age(s snapshot, seen map[int64]time.Time, now time.Time) {
	for xid := range seen {
		if !s.running(xid) {
			delete(seen, xid)
		}
	}
	for _, xid := range s.open {
		since, ok := seen[xid]
		if !ok {
			seen[xid] = now
		} else if now.Sub(since) >= bystanderAfter {
			m.passBy(xid)
		}
	}
}

// horizon is the id below which all transactions have ended, but for bystanders.
func (m *marks) horizon(s snapshot) int64 {
	least := s.end
	for _, xid := range s.open {
		if _, ok := m.bystanders[xid]; !ok {
			least = min(least, xid)
		}
	}
	return least
}
