package relay

// marks are the places from which a partition is read. A mark (stamp, seq) says
// that all events up to seq that could be seen have been dealt with; it becomes the
// low mark once no transaction that began to write before the stamp is in flight
// any more, and a complete read after that has found nothing.
type marks struct {
	parts map[int]*partMarks
}

type partMarks struct {
	low     int64
	waiting []mark // ascending in both
}

type mark struct{ stamp, seq int64 }

// maxWaiting bounds the list under a transaction that stays open for long.
const maxWaiting = 256

func newMarks() *marks { return &marks{parts: map[int]*partMarks{}} }

// keep forgets partitions that are not leased any more and takes in new ones
// with the low mark that their last owner saved.
func (m *marks) keep(leases []lease) {
	owned := make(map[int]bool, len(leases))
	for _, l := range leases {
		owned[l.part] = true
		if p := m.parts[l.part]; p == nil || l.fresh {
			m.parts[l.part] = &partMarks{low: l.low}
		}
	}
	for part := range m.parts {
		if !owned[part] {
			delete(m.parts, part)
		}
	}
}

func (m *marks) low(part int) int64 {
	if p := m.parts[part]; p != nil {
		return p.low
	}
	return 0
}

// minLow is the least low mark of all partitions.
func (m *marks) minLow() int64 {
	first := true
	var low int64
	for _, p := range m.parts {
		if first || p.low < low {
			low, first = p.low, false
		}
	}
	return low
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

// fallBack begins again at seq, behind which events of a released key stand.
func (p *partMarks) fallBack(seq int64) {
	p.low = min(p.low, seq-1)
	p.waiting = nil
}

// firstOpen is, by partition, the least number of a page that is neither settled nor held.
func firstOpen(p page, s settlement) map[int]int64 {
	open := map[int]int64{}
	for i := range p.items {
		it := &p.items[i]
		if s.done[it.Seq] || s.held[it.key()] {
			continue
		}
		if at, ok := open[it.Part]; !ok || it.Seq < at {
			open[it.Part] = it.Seq
		}
	}
	return open
}
