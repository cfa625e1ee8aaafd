package relay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// model is a database with transactions that draw an id, then numbers, and commit or roll back in
// any order; the marks run against it as in the readers and the loop.
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
	// joint reads all partitions together, as MySQL's reader does, else one after the other, as that of PostgreSQL.
	joint bool
	// serial makes the writers of one key wait for one another: only then the key has an order.
	serial bool
	// began is the snapshot of the last walk.
	began snapshot
	// gaps, base and bound are those of MySQL's reader.
	gaps        gaps
	base, bound int64
	// walks and ended count what is of interest: pages behind others, bystanders that ended.
	walks, ended, crowded, stops int
	// wholes are surveys that only counted, windows those of MySQL.
	wholes, windows int
	fault           string
	// quiet ends the writing.
	quiet bool
}

type modelTx struct {
	id     int64
	events []*modelEvent
}

type modelEvent struct {
	item
	xid int64
	// A row is written some time after its number is drawn, and visible when its transaction has ended.
	written, visible, done bool
}

func (m *model) write() {
	if m.quiet {
		return
	}
	if len(m.open) < 6 && m.random.IntN(2) == 0 {
		m.next++
		m.open = append(m.open, &modelTx{id: m.next})
	}
	if len(m.open) == 0 {
		return
	}
	tx := m.open[m.random.IntN(len(m.open))]
	if n := len(tx.events); n > 0 && !tx.events[n-1].written {
		tx.events[n-1].written = true
		return
	}
	k := m.random.IntN(12)
	if m.serial && m.locked(tx, fmt.Sprint(k)) {
		return
	}
	m.seq++
	e := &modelEvent{item: at(k%len(m.leases), m.seq, fmt.Sprint(k)), xid: tx.id, written: m.random.IntN(3) > 0}
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
		e.written, e.visible = true, true
		if rollback {
			delete(m.events, e.Seq)
		}
	}
	m.open = slices.Delete(m.open, i, i+1)
}

// others lets some of it happen between two statements of the relay.
func (m *model) others(n int) {
	for range m.random.IntN(n) {
		m.write()
		m.end()
	}
}

func (m *model) snapshot() snapshot {
	s := snapshot{end: m.next + 1}
	for _, tx := range m.open {
		s.open = append(s.open, tx.id)
	}
	slices.Sort(s.open)
	return s
}

func (m *model) limit() int { return 1 + m.random.IntN(m.maxLimit) }

func (m *model) read() page {
	m.marks.keep(m.leases)
	if behind := m.marks.onward(m.leases); behind != nil {
		return m.follow(*behind)
	}
	if m.joint {
		return m.readJoint()
	}
	return m.readParts()
}

// follow is the page behind another one of a walk.
func (m *model) follow(behind page) page {
	m.walks++
	p := behind.follow()
	if m.joint {
		return m.followJoint(behind)
	}
	for {
		p = behind.follow()
		begin, limit, stop := behind.rest[0].seq, m.limit(), int64(-1)
		to := min(begin+behind.width, p.walk.high)
		for seq := begin + 1; seq <= to && len(p.items) < limit; seq++ {
			e := m.pending(seq)
			if e == nil || seq <= p.walk.from[e.Part].seq {
				continue
			}
			if e.xid >= m.began.end || m.began.running(e.xid) {
				stop = seq
				m.stops++
				break
			}
			p.items = append(p.items, e.item)
		}
		p.coverWindow(m.leases, begin, to, limit, false, stop)
		if len(p.items) > 0 || !p.goesOn() {
			return p
		}
		behind.rest, behind.width = p.rest, p.width
	}
}

// pending is the event with a number if it is to be read.
func (m *model) pending(seq int64) *modelEvent {
	e := m.events[seq]
	if e == nil || !e.visible || e.done {
		return nil
	}
	if head, ok := m.held[e.key()]; ok && seq >= head {
		return nil
	}
	return e
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
		if m.serial && e.visible && !e.done && seq < it.Seq && e.key() == it.key() {
			m.fault = fmt.Sprintf("event %d overtook %d", it.Seq, seq)
		}
	}
}

// publish publishes some of a page; with trouble, keys fail and are held. It says whether all went out.
func (m *model) publish(p page, trouble bool, s *settlement) (clean bool) {
	clean = true
	stopped := map[laneKey]bool{}
	for i := range p.items {
		it := &p.items[i]
		if stopped[it.key()] {
			continue
		}
		whim := 2
		if trouble {
			whim = m.random.IntN(6)
		}
		switch whim {
		case 0: // not attempted, as in an outage
			stopped[it.key()], clean = true, false
		case 1:
			stopped[it.key()], clean = true, false
			if _, ok := m.held[it.key()]; ok {
				continue // an earlier one than the head; tried again
			}
			m.held[it.key()], s.held[it.key()], s.done[it.Seq] = it.Seq, it.Seq, true
		default:
			m.delivered(it)
			m.events[it.Seq].done, s.done[it.Seq] = true, true
		}
	}
	return clean
}

// pass publishes a page and goes on behind it as long as all goes well; heads are released at random.
func (m *model) pass() {
	p := m.read()
	m.others(4)
	s := settlement{done: map[int64]bool{}, held: map[laneKey]int64{}, released: map[int]int64{}}
	for key, seq := range m.held {
		if m.random.IntN(4) == 0 {
			e := m.events[seq]
			e.done = true
			delete(m.held, key)
			s.released[e.Part] = min(seq, cmpOr(s.released[e.Part], seq))
		}
	}
	clean := m.publish(p, m.random.IntN(4) == 0, &s)
	if !m.settled(p, s) || !clean {
		return
	}
	var before *settlement
	behind := p
	for {
		next := m.follow(behind) // read ahead
		m.others(3)
		then := settlement{done: map[int64]bool{}, held: map[laneKey]int64{}, released: map[int]int64{}}
		clean = m.publish(next, m.random.IntN(4) == 0, &then)
		onward := before == nil || m.settled(behind, *before)
		m.others(3)
		behind, before = next, &then
		if !onward || !clean || !next.goesOn() {
			break
		}
	}
	m.settled(behind, *before)
}

func (m *model) settled(p page, s settlement) bool {
	m.next++ // the settlement's own id
	if m.joint {
		m.marks.moveAtOnce(p, s)
	} else {
		m.marks.move(p, s, m.next)
	}
	return m.marks.walked(p, s)
}

func cmpOr(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return a
}

// TestNothingBelowTheLowMarkIsEverUndelivered: an event below the mark that is neither
// done nor behind a hold nor of a bystander would never be read again. With serialized writers none overtakes another one of its key.
func TestNothingBelowTheLowMarkIsEverUndelivered(t *testing.T) {
	t.Parallel()
	walks, ended, crowded, stops, wholes, windows := 0, 0, 0, 0, 0, 0
	for seed := range uint64(1200) {
		m := &model{
			joint: seed%2 == 0, serial: seed%3 > 0, random: rand.New(rand.NewPCG(seed, 7)), events: map[int64]*modelEvent{},
			held: map[laneKey]int64{}, marks: newMarks(), gaps: gaps{window: time.Hour, most: 3 + int(seed%5)*60}, maxLimit: 1 + int(seed%20),
		}
		for part := range 1 + int(seed/12)%3 {
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
			if m.random.IntN(30) == 0 {
				m.handOver(step)
			}
			m.check(t, fmt.Sprintf("seed %d, step %d", seed, step))
		}
		// When all have ended everything is delivered, but what is held.
		m.quiet = true
		for len(m.open) > 0 {
			m.end()
		}
		for n := 0; m.left() > 0; n++ {
			require.Less(t, n, 2000, "seed %d: %d events are never read", seed, m.left())
			m.pass()
			m.check(t, fmt.Sprintf("seed %d, at the end", seed))
		}
		walks, ended, crowded, stops = walks+m.walks, ended+m.ended, crowded+m.crowded, stops+m.stops
		wholes, windows = wholes+m.wholes, windows+m.windows
	}
	require.Greater(t, walks, 1000, "walks go on")
	require.Greater(t, crowded, 100, "there are more gaps than are watched")
	require.Greater(t, stops, 100, "walks end before what their begin could not see")
	require.Greater(t, ended, 1000, "bystanders end")
	require.Greater(t, wholes, 1000, "surveys count")
	require.Greater(t, windows, 1000, "windows are read")
}

// handOver gives a partition away and takes it again, or all of them to a relay that knows nothing but the saved marks.
func (m *model) handOver(step int) {
	for i := range m.leases {
		m.leases[i].low = m.low(m.leases[i])
	}
	if m.random.IntN(2) == 0 {
		m.marks, m.gaps.ranges, m.base, m.bound = newMarks(), nil, 0, 0
		return
	}
	m.leases[m.random.IntN(len(m.leases))].token = fmt.Sprint(step)
}

// low is what is saved of a mark.
func (m *model) low(l lease) int64 {
	low := m.marks.low(l)
	return min(low, m.gaps.first(low+1)-1)
}

func (m *model) left() (n int) {
	for seq := range m.events {
		if m.pending(seq) != nil {
			n++
		}
	}
	return n
}

func (m *model) check(t *testing.T, when string) {
	t.Helper()
	require.Empty(t, m.fault, when)
	for seq, e := range m.events {
		head, held := m.held[e.key()]
		if e.done || held && seq >= head {
			continue
		}
		require.Greater(t, seq, m.low(m.leases[e.Part]), "%s: event %d of key %s", when, seq, e.AggregateID)
	}
}
