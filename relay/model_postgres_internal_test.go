package relay

// The reader of PostgreSQL in the model: partition by partition, in a snapshot.

// readParts is a page in one snapshot: partition by partition, from the low mark; or the begin of a walk.
func (m *model) readParts() page {
	s := m.look()
	p := page{covered: map[int]int64{}, horizon: m.marks.horizon(s)}
	var from []place
	for _, l := range m.leases {
		from = append(from, place{l.part, m.marks.from(l)})
	}
	if m.marks.full {
		m.began = s
		w := &walk{leases: signature(m.leases), high: m.highest(), horizon: p.horizon, pages: m.random.IntN(3) * 4, from: from}
		m.others(4)
		return m.follow(page{walk: w, nth: -1, rest: []place{{seq: m.marks.minFrom(m.leases)}}, width: int64(m.limit())})
	}
	first := m.random.IntN(len(from))
	from = append(from[first:], from[:first]...)
	limit := m.limit()
	m.collect(&p, from, limit)
	p.cover(from, limit, false)
	return p
}

func (m *model) collect(p *page, from []place, limit int) {
	for _, at := range from {
		for seq := at.seq + 1; seq <= m.seq; seq++ {
			e := m.pending(seq)
			if e == nil || e.Part != at.part {
				continue
			}
			p.items = append(p.items, e.item)
			if len(p.items) == limit {
				return
			}
		}
	}
}

// look is a snapshot in which no bystander has ended.
func (m *model) look() snapshot {
	s := m.snapshot()
	for m.marks.endBystanders(s) {
		m.ended++
		m.others(6)
		s = m.snapshot()
	}
	for _, xid := range s.open {
		if m.random.IntN(4) == 0 {
			m.marks.passBy(xid)
		}
	}
	return s
}
