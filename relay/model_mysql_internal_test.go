package relay

import (
	"math"
	"slices"
	"time"
)

// The reader of MySQL in the model: all partitions together by number, with surveys.

// readJoint is a page of all partitions by number, with a survey before.
func (m *model) readJoint() page {
	from, to := m.marks.minFrom(m.leases), int64(math.MaxInt64)
	p := page{covered: map[int]int64{}, horizon: math.MaxInt64}
	if m.marks.full || from < m.base || m.random.IntN(2) == 0 {
		s := m.survey(from)
		m.gaps.update(s, time.Time{})
		if len(m.gaps.ranges) == m.gaps.most {
			m.crowded++
		}
		m.base, m.bound = from, s.to
		if high := s.belowInFlight(); (m.marks.full || s.more) && high > from {
			p.walk, to = &walk{leases: signature(m.leases), high: high, horizon: p.horizon, pages: m.random.IntN(3) * 4, more: s.more && high == s.to}, high
		}
	}
	m.others(3)
	p.bounds = map[int]int64{}
	for _, l := range m.leases {
		p.bounds[l.part] = m.bound
	}
	if p.walk != nil {
		p.walk.bounds = p.bounds
	}
	var late []item
	for _, g := range m.gaps.below(from) {
		for seq := g.low; seq <= g.high; seq++ {
			if e := m.pending(seq); e != nil {
				late = append(late, e.item)
			}
		}
	}
	m.collectJoint(&p, from, to)
	p.items = append(late, p.items...)
	return p
}

// followJoint reads without a window or by windows.
func (m *model) followJoint(behind page) page {
	for {
		p := behind.follow()
		begin, limit := behind.rest[0].seq, m.limit()
		if m.random.IntN(2) == 0 {
			m.collectJoint(&p, begin, p.walk.high)
			return p
		}
		m.windows++
		to := min(m.gaps.endOf(begin+1+int64(m.random.IntN(30))), p.walk.high)
		for seq := begin + 1; seq <= to && len(p.items) < limit; seq++ {
			if e := m.pending(seq); e != nil {
				p.items = append(p.items, e.item)
			}
		}
		p.coverWindow(m.leases, begin, to, limit, false, -1)
		if len(p.items) > 0 || !p.goesOn() {
			return p
		}
		behind.rest = p.rest
		m.others(4)
	}
}

// survey looks at what is written, and a moment later at what is committed.
func (m *model) survey(from int64) survey {
	s := survey{from: from, to: from, pending: map[int64]bool{}}
	most := 1 + m.random.IntN(40)
	if m.random.IntN(2) == 0 {
		m.count(&s, int64(1+m.random.IntN(20)))
	}
	for seq := from + 1; seq <= m.seq && most > 0 && !s.whole; seq++ {
		if e := m.events[seq]; e != nil && e.written {
			s.written, s.to = append(s.written, seq), seq
			if most--; most == 0 {
				s.more = true
			}
		}
	}
	watched := m.gaps.ranges
	for _, g := range watched {
		for seq := g.low; seq <= g.high; seq++ {
			if e := m.events[seq]; e != nil && e.written {
				s.written = append(s.written, seq)
			}
		}
	}
	m.others(4)
	for seq := from + 1; seq <= s.to && !s.whole; seq++ {
		if e := m.events[seq]; e != nil && e.visible {
			s.committed = append(s.committed, seq)
		}
	}
	for _, g := range watched {
		for seq := g.low; seq <= g.high; seq++ {
			if e := m.events[seq]; e != nil && e.visible {
				s.committed = append(s.committed, seq)
				s.pending[seq] = m.pending(seq) != nil
			}
		}
	}
	slices.Sort(s.written)
	slices.Sort(s.committed)
	return s
}

// count looks whether each of some numbers has a committed row.
func (m *model) count(s *survey, reach int64) {
	rows, last := int64(0), int64(0)
	for seq := s.from + 1; seq <= s.from+reach; seq++ {
		if e := m.events[seq]; e != nil && e.visible {
			rows, last = rows+1, seq
		}
	}
	if rows > 0 && rows == last-s.from {
		s.whole, s.to, s.more = true, last, rows == reach
		m.wholes++
	}
}

func (m *model) collectJoint(p *page, from, to int64) {
	limit := m.limit()
	for seq := from + 1; seq <= min(to, m.seq) && len(p.items) < limit; seq++ {
		if e := m.pending(seq); e != nil {
			p.items = append(p.items, e.item)
		}
	}
	p.coverAll(m.leases, to, limit, false)
}
