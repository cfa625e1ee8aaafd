package relay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func at(part int, seq int64, key string) item {
	return item{Record: gormoutbox.Record{Part: part, Seq: seq, AggregateType: "a", AggregateID: key}}
}

func keyOf(key string) laneKey { return laneKey{"a", key} }

func TestAKeyReleasedInAPartitionThatThePageDidNotReach(t *testing.T) {
	t.Parallel()
	m := newMarks()
	leases := []lease{{part: 1, token: "t", low: 100}, {part: 2, token: "t", low: 100}}
	m.keep(leases)
	m.move(page{covered: map[int]int64{1: 150}, horizon: 1}, settlement{released: map[int]int64{2: 50}}, 1)
	assert.EqualValues(t, 100, m.low(leases[0]))
	assert.EqualValues(t, 49, m.low(leases[1]))
}

func TestMarksBelongToALease(t *testing.T) {
	t.Parallel()
	m := newMarks()
	mine := lease{part: 1, token: "mine", low: 100}
	m.keep([]lease{mine})
	m.fallBack(1, 50)
	m.keep(nil)
	m.keep([]lease{mine})
	assert.EqualValues(t, 49, m.low(mine), "a lease that ran out and was renewed keeps its mark, not that of its claim")
	again := lease{part: 1, token: "again", low: 70}
	assert.EqualValues(t, 70, m.low(again), "saved before the first read")
	m.keep([]lease{again})
	assert.EqualValues(t, 70, m.low(again))
	m.fallBack(1, 61)
	assert.EqualValues(t, 60, m.low(again))
	m.fallBack(9, 1) // not ours
	assert.EqualValues(t, 60, m.minLow([]lease{again}), "partitions of others don't count")
}

func TestWhatKeepsAMark(t *testing.T) {
	t.Parallel()
	full := page{items: []item{at(1, 10, "k"), at(1, 11, "l"), at(1, 12, "k")}, covered: map[int]int64{1: math.MaxInt64}, horizon: 5}
	empty := page{covered: map[int]int64{1: math.MaxInt64}, horizon: 7}
	for name, test := range map[string]struct {
		s    settlement
		then page
		low  int64
	}{
		"all done":               {settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, empty, 12},
		"one open":               {settlement{done: map[int64]bool{10: true, 12: true}}, empty, 10},
		"held with those behind": {settlement{done: map[int64]bool{11: true}, held: map[laneKey]int64{keyOf("k"): 10}}, empty, 12},
		"held behind an open one": {
			settlement{done: map[int64]bool{11: true}, held: map[laneKey]int64{keyOf("k"): 12}}, empty, 9,
		},
		"a transaction in flight": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, page{covered: empty.covered, horizon: 5}, 0,
		},
		"a later read is not complete": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}},
			page{covered: map[int]int64{1: 9}, horizon: 7},
			0,
		},
		"a bound": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}},
			page{covered: empty.covered, horizon: 7, bounds: map[int]int64{1: 11}},
			0,
		},
		"not reached": {
			settlement{done: map[int64]bool{10: true, 11: true, 12: true}}, page{covered: map[int]int64{2: 99}, horizon: 7}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMarks()
			l := lease{part: 1, token: "t"}
			m.keep([]lease{l})
			m.move(full, test.s, 6)
			assert.Zero(t, m.low(l), "a mark waits for a read")
			m.move(test.then, settlement{}, 0)
			assert.Equal(t, test.low, m.low(l))
		})
	}
}

func TestTheListOfWaitingMarksIsBounded(t *testing.T) {
	t.Parallel()
	p := &partMarks{}
	for i := range int64(10 * maxWaiting) {
		p.wait(i+1, i+1)
	}
	require.Len(t, p.waiting, maxWaiting)
	assert.Equal(t, mark{10 * maxWaiting, 10 * maxWaiting}, p.waiting[maxWaiting-1], "the last number with the last stamp")
	assert.True(t, slices.IsSortedFunc(p.waiting, func(a, b mark) int { return int(a.stamp - b.stamp) }))
	p.advance(math.MaxInt64, math.MaxInt64)
	assert.EqualValues(t, 10*maxWaiting, p.low)
}

// model is a database with transactions that draw an id, then numbers, and commit or roll back in
// any order; the marks run against it as in the readers.
type model struct {
	random   *rand.Rand
	next     int64 // transaction id
	seq      int64
	open     []*modelTx
	events   map[int64]*modelEvent
	held     map[laneKey]int64
	marks    *marks
	leases   []lease
	maxLimit int
	// joint reads all partitions together and walks; its writers of one key wait for one another.
	joint bool
	walks int
	fault string
}

type modelTx struct {
	id     int64
	events []*modelEvent
}

type modelEvent struct {
	item
	visible, done bool
}

func (m *model) write() {
	if len(m.open) < 6 && m.random.IntN(2) == 0 {
		m.next++
		m.open = append(m.open, &modelTx{id: m.next})
	}
	if len(m.open) == 0 {
		return
	}
	tx := m.open[m.random.IntN(len(m.open))]
	k := m.random.IntN(12)
	if m.joint && m.locked(tx, fmt.Sprint(k)) {
		return
	}
	m.seq++
	e := &modelEvent{item: at(k%len(m.leases), m.seq, fmt.Sprint(k))}
	m.events[m.seq] = e
	tx.events = append(tx.events, e)
}

// locked says whether another open transaction has written the key.
func (m *model) locked(own *modelTx, key string) bool {
	return slices.ContainsFunc(m.open, func(tx *modelTx) bool {
		return tx != own && slices.ContainsFunc(tx.events, func(e *modelEvent) bool { return e.AggregateID == key })
	})
}

func (m *model) end() {
	if len(m.open) == 0 {
		return
	}
	i := m.random.IntN(len(m.open))
	rollback := m.random.IntN(5) == 0
	for _, e := range m.open[i].events {
		e.visible = true
		if rollback {
			delete(m.events, e.Seq)
		}
	}
	m.open = slices.Delete(m.open, i, i+1)
}

// read is a page in one snapshot: partition by partition, from the low mark.
func (m *model) read() page {
	p := page{covered: map[int]int64{}, horizon: m.next + 1}
	for _, tx := range m.open {
		p.horizon = min(p.horizon, tx.id)
	}
	limit := 1 + m.random.IntN(m.maxLimit)
	m.marks.keep(m.leases)
	first := m.random.IntN(len(m.leases))
	for i := range m.leases {
		l := m.leases[(first+i)%len(m.leases)]
		for seq := m.marks.low(l) + 1; seq <= m.seq; seq++ {
			e := m.events[seq]
			if e == nil || !e.visible || e.done || e.Part != l.part {
				continue
			}
			if head, ok := m.held[e.key()]; ok && seq >= head {
				continue
			}
			p.items = append(p.items, e.item)
			if len(p.items) == limit {
				p.covered[l.part] = seq
				return p
			}
		}
		p.covered[l.part] = math.MaxInt64
	}
	return p
}

// readJoint is a page of all partitions by number, as MySQL's reader makes it.
func (m *model) readJoint() page {
	p := page{covered: map[int]int64{}}
	limit := 1 + m.random.IntN(m.maxLimit)
	m.marks.keep(m.leases)
	from, to := m.marks.minLow(m.leases), int64(math.MaxInt64)
	if w := m.marks.onward(m.leases); w != nil {
		p.walk, p.horizon, from, to = w, w.horizon, w.cursor, w.high
		m.walks++
	} else {
		p.horizon = m.next + 1
		for _, tx := range m.open {
			p.horizon = min(p.horizon, tx.id)
		}
		if m.marks.full {
			p.walk = &walk{leases: signature(m.leases), high: m.highest(), horizon: p.horizon}
			for range m.random.IntN(3) { // between the two statements
				m.write()
				m.end()
			}
		}
	}
	covered := to
	for seq := from + 1; seq <= min(to, m.seq); seq++ {
		e := m.events[seq]
		if e == nil || !e.visible || e.done {
			continue
		}
		if head, ok := m.held[e.key()]; ok && seq >= head {
			continue
		}
		p.items = append(p.items, e.item)
		if len(p.items) == limit {
			p.full, covered = true, seq
			break
		}
	}
	for _, l := range m.leases {
		p.covered[l.part] = covered
	}
	return p
}

func (m *model) highest() (high int64) {
	for seq, e := range m.events {
		if e.visible {
			high = max(high, seq)
		}
	}
	return high
}

// delivered notes an event that goes out although one of its key that could be seen before it has not.
func (m *model) delivered(it *item) {
	for seq, e := range m.events {
		if m.joint && e.visible && !e.done && seq < it.Seq && e.key() == it.key() {
			m.fault = fmt.Sprintf("event %d overtook %d", it.Seq, seq)
		}
	}
}

// pass publishes some of a page; keys fail, are held and released at random.
func (m *model) pass() {
	var p page
	if m.joint {
		p = m.readJoint()
	} else {
		p = m.read()
	}
	for range m.random.IntN(4) {
		m.write()
		m.end() // between read and settlement
	}
	s := settlement{done: map[int64]bool{}, held: map[laneKey]int64{}, released: map[int]int64{}}
	for key, seq := range m.held {
		if m.random.IntN(4) == 0 {
			e := m.events[seq]
			e.done = true
			delete(m.held, key)
			s.released[e.Part] = min(seq, cmpOr(s.released[e.Part], seq))
		}
	}
	stopped := map[laneKey]bool{}
	for i := range p.items {
		it := &p.items[i]
		if stopped[it.key()] {
			continue
		}
		whim := m.random.IntN(6)
		if m.joint { // mostly good, or no walk goes on
			whim = m.random.IntN(60)
		}
		switch whim {
		case 0: // not attempted, as in an outage
			stopped[it.key()] = true
		case 1:
			stopped[it.key()] = true
			if _, ok := m.held[it.key()]; ok {
				continue // an earlier one than the head; tried again
			}
			m.held[it.key()], s.held[it.key()], s.done[it.Seq] = it.Seq, it.Seq, true
		default:
			m.delivered(it)
			m.events[it.Seq].done, s.done[it.Seq] = true, true
		}
	}
	m.next++ // the settlement's own id
	m.marks.move(p, s, m.next)
	if m.joint {
		m.marks.walked(p, s)
	}
}

func cmpOr(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return a
}

// TestNothingBelowTheLowMarkIsEverUndelivered: an event below the mark that is neither
// done nor behind a hold would never be read again.
func TestNothingBelowTheLowMarkIsEverUndelivered(t *testing.T) {
	t.Parallel()
	walks := 0
	for seed := range uint64(120) {
		m := &model{joint: seed >= 60, random: rand.New(rand.NewPCG(seed, 7)), events: map[int64]*modelEvent{}, held: map[laneKey]int64{}, marks: newMarks(), maxLimit: 1 + int(seed%20)}
		for part := range 3 {
			m.leases = append(m.leases, lease{part: part, token: "t"})
		}
		for step := range 300 {
			switch m.random.IntN(4) {
			case 0, 1:
				m.write()
			case 2:
				m.end()
			default:
				m.pass()
			}
			for seq, e := range m.events {
				head, held := m.held[e.key()]
				if e.done || held && seq >= head {
					continue
				}
				require.Greater(t, seq, m.marks.low(m.leases[e.Part]), "seed %d, step %d: event %d of key %s", seed, step, seq, e.AggregateID)
			}
			require.Empty(t, m.fault, "seed %d, step %d", seed, step)
		}
		walks += m.walks
	}
	require.Greater(t, walks, 100, "walks go on")
}

// TestLowMarksMove: with nothing in flight they reach the end.
func TestLowMarksMove(t *testing.T) {
	t.Parallel()
	m := newMarks()
	l := lease{part: 1, token: "t"}
	m.keep([]lease{l})
	for i := range int64(10) {
		seq := i + 1
		m.move(page{items: []item{at(1, seq, "k")}, covered: map[int]int64{1: math.MaxInt64}, horizon: seq}, settlement{done: map[int64]bool{seq: true}}, seq)
	}
	assert.EqualValues(t, 9, m.low(l))
}
