package relay

// marks are the places from which a partition is read. A mark (stamp, seq) says
// that all events up to seq that could be seen have been dealt with; it becomes the
// low mark once no transaction that began to write before the stamp is in flight
// any more, and a complete read after that has found nothing. Where a page has bounds, up to which it is known what may still
// appear, and on SQLite, that is so at once.
type marks struct {
	parts map[int]*partMarks
	// behind is the page behind which a walk goes on, and full says that the last page was: there is a backlog to walk over.
	behind *page
	full   bool
	// bystanders are open transactions that are not waited for (PostgreSQL).
	bystanders map[int64]struct{}
}

type partMarks struct {
	// token is the lease for which the marks hold.
	token   string
	low     int64
	waiting []mark // ascending in both
	// bounds has the low mark of the moment in which each bystander became one.
	bounds map[int64]int64
}

type mark struct{ stamp, seq int64 }

// maxWaiting bounds the list under a transaction that stays open for long.
const maxWaiting = 256

func newMarks() *marks { return &marks{parts: map[int]*partMarks{}, bystanders: map[int64]struct{}{}} }

// keep takes in new leases with the low mark that the last owner saved. While a
// token is the same nobody else had the partition, even if the lease has run out in between
// and was renewed, so its marks stay.
func (m *marks) keep(leases []lease) {
	for _, l := range leases {
		if p := m.parts[l.part]; p == nil || p.token != l.token {
			p = &partMarks{token: l.token, low: l.low}
			for xid := range m.bystanders {
				p.passBy(xid)
			}
			m.parts[l.part] = p
		}
	}
}

// low is where the next owner of a partition begins: it does not know of the bystanders.
func (m *marks) low(l lease) int64 {
	low := m.from(l)
	if p := m.parts[l.part]; p != nil && p.token == l.token {
		for _, bound := range p.bounds {
			low = min(low, bound)
		}
	}
	return low
}

// from is where the next read of a partition begins.
func (m *marks) from(l lease) int64 {
	if p := m.parts[l.part]; p != nil && p.token == l.token {
		return p.low
	}
	return l.low
}

// minFrom is where the next read of all the leased partitions together begins.
func (m *marks) minFrom(leases []lease) int64 {
	low := m.from(leases[0])
	for _, l := range leases[1:] {
		low = min(low, m.from(l))
	}
	return low
}

// fallBack begins again at seq, behind which events of a released key stand.
func (m *marks) fallBack(part int, seq int64) {
	m.behind = nil
	if p := m.parts[part]; p != nil {
		p.low = min(p.low, seq-1)
		p.waiting = nil
	}
}

// advance moves the low mark to the last waiting mark that is allowed: its stamp
// not above horizon, its number not above limit.
func (p *partMarks) advance(horizon, limit int64) {
	n := 0
	for _, w := range p.waiting {
		if w.stamp > horizon || w.seq > limit {
			break
		}
		p.low = max(p.low, w.seq)
		n++
	}
	p.waiting = p.waiting[n:]
}

// wait adds a mark. While the oldest ones can't advance, the newest is replaced, which
// only makes it wait longer.
func (p *partMarks) wait(stamp, seq int64) {
	if seq <= p.low || (len(p.waiting) > 0 && p.waiting[len(p.waiting)-1].seq >= seq) {
		return
	}
	if len(p.waiting) >= maxWaiting {
		p.waiting[len(p.waiting)-1] = mark{stamp, seq}
		return
	}
	p.waiting = append(p.waiting, mark{stamp, seq})
}

// move advances the marks by what a page and its settlement showed, and adds a new
// one with the given stamp unless it is 0.
func (m *marks) move(p page, s settlement, stamp int64) {
	open := firstOpen(p, s)
	highest := int64(0)
	for i := range p.items {
		highest = max(highest, p.items[i].Seq)
	}
	// A full page may not have reached a partition of which a key was released.
	for part, from := range s.released {
		m.fallBack(part, from)
	}
	for part, covered := range p.covered {
		pm := m.parts[part]
		if _, released := s.released[part]; pm == nil || released {
			continue
		}
		limit := covered
		if at, ok := open[part]; ok {
			limit = min(limit, at-1)
		}
		// Up to a bound everything is known. Without one, a number may be drawn any moment above those that were seen.
		seen := highest
		if bound, ok := p.bounds[part]; ok {
			limit = min(limit, bound)
			seen = limit
		}
		pm.advance(p.horizon, limit)
		if stamp != 0 {
			pm.wait(stamp, min(limit, seen))
		}
	}
}

// moveAtOnce is move where it is known of all numbers in reach what may still appear, so that no later read is waited for.
func (m *marks) moveAtOnce(p page, s settlement) {
	p.horizon = 1
	m.move(p, s, 1)
	m.move(p, s, 0)
}

// firstOpen is, by partition, the least number of a page that is neither settled nor held.
func firstOpen(p page, s settlement) map[int]int64 {
	open := map[int]int64{}
	for i := range p.items {
		it := &p.items[i]
		if head, held := s.held[it.key()]; s.done[it.Seq] || held && it.Seq >= head {
			continue
		}
		if at, ok := open[it.Part]; !ok || it.Seq < at {
			open[it.Part] = it.Seq
		}
	}
	return open
}
