package relaytest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// history is a random one that breaks nothing until a fault is planted.
type history struct {
	random     *rand.Rand
	committed  []relaytest.Event // in the order of their positions, aggregate by aggregate
	unlogged   map[string]bool   // of committed: their writers did not say so
	rolledBack []relaytest.Event
	unknown    []relaytest.Event // which did not commit
	deliveries []relaytest.Delivery
}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 7)), unlogged: map[string]bool{}}
	lanes := make([][]relaytest.Event, 3+h.random.IntN(5))
	for a := range lanes {
		for p := range 3 + h.random.IntN(20) {
			e := relaytest.Event{AggregateType: "order", AggregateID: fmt.Sprint(a), Position: int64(p + 1)}
			for n := 0; h.random.IntN(5) == 0; n++ {
				e.ID = fmt.Sprintf("%d/%d/not%d", a, p, n)
				if h.random.IntN(2) == 0 {
					h.rolledBack = append(h.rolledBack, e)
				} else {
					h.unknown = append(h.unknown, e)
				}
			}
			e.ID = fmt.Sprintf("%d/%d", a, p)
			h.unlogged[e.ID] = h.random.IntN(8) == 0
			lanes[a] = append(lanes[a], e)
			h.committed = append(h.committed, e)
		}
	}
	for left := len(h.committed); left > 0; {
		a := h.random.IntN(len(lanes))
		if len(lanes[a]) == 0 {
			continue
		}
		h.deliver(lanes[a][0])
		lanes[a] = lanes[a][1:]
		left--
	}
	return h
}

func (h *history) deliver(e relaytest.Event) {
	h.deliveries = append(h.deliveries, relaytest.Delivery{
		ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Stream: string(e.AggregateID[0] % 3), At: epoch.Add(time.Duration(len(h.deliveries)) * time.Second),
	})
}

// pick returns a random one of the committed events that match.
func (h *history) pick(match func(relaytest.Event) bool) (relaytest.Event, int) {
	for {
		i := h.random.IntN(len(h.committed))
		if match(h.committed[i]) {
			return h.committed[i], i
		}
	}
}

func (h *history) place(id string) int {
	return slices.IndexFunc(h.deliveries, func(d relaytest.Delivery) bool { return d.ID == id })
}

// last says whether an event is the last of its aggregate.
func (h *history) last(i int) bool {
	return i+1 == len(h.committed) || h.committed[i+1].AggregateID != h.committed[i].AggregateID
}

// report tells a checker everything, the writers' log before or behind the deliveries.
func (h *history) report() relaytest.Report {
	c := relaytest.NewChecker(relaytest.Config{})
	steps := []func(){
		func() {
			c.Intended(h.committed...)
			c.Intended(h.unknown...)
			c.Intended(h.rolledBack...)
		},
		func() {
			for _, e := range h.committed {
				if !h.unlogged[e.ID] {
					c.Committed(e.ID)
				}
			}
			for _, e := range h.rolledBack {
				c.RolledBack(e.ID)
			}
		},
		func() {
			for _, d := range h.deliveries {
				c.Delivered(d)
			}
		},
	}
	h.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}
	return c.Report()
}

// faults plant one fault each and say as what and how often it must be found.
var faults = []struct {
	name  string
	plant func(h *history) (relaytest.Kind, string)
}{
	{"lost", func(h *history) (relaytest.Kind, string) {
		e, _ := h.pick(func(e relaytest.Event) bool { return !h.unlogged[e.ID] })
		h.deliveries = slices.Delete(h.deliveries, h.place(e.ID), h.place(e.ID)+1)
		return relaytest.Lost, e.ID
	}},
	{"lost, and not logged", func(h *history) (relaytest.Kind, string) {
		var e relaytest.Event
		for i := 0; e.ID == "" || h.last(i); {
			e, i = h.pick(func(relaytest.Event) bool { return true })
		}
		// Without candidates for its position it is known which one is lost.
		h.unknown = slices.DeleteFunc(h.unknown, func(u relaytest.Event) bool { return u.AggregateID == e.AggregateID })
		h.unlogged[e.ID] = true
		h.deliveries = slices.Delete(h.deliveries, h.place(e.ID), h.place(e.ID)+1)
		return relaytest.Lost, e.ID
	}},
	{"never intended", func(h *history) (relaytest.Kind, string) {
		h.deliver(relaytest.Event{ID: "ghost", AggregateType: "order", AggregateID: "0"})
		return relaytest.Invented, "ghost"
	}},
	{"rolled back", func(h *history) (relaytest.Kind, string) {
		e, _ := h.pick(func(relaytest.Event) bool { return true })
		e.ID = "undone"
		h.rolledBack = append(h.rolledBack, e)
		h.deliver(e)
		return relaytest.Invented, e.ID
	}},
	{"its place is taken", func(h *history) (relaytest.Kind, string) {
		e, _ := h.pick(func(e relaytest.Event) bool { return !h.unlogged[e.ID] })
		e.ID = "undone"
		h.unknown = append(h.unknown, e)
		h.deliver(e)
		return relaytest.Invented, e.ID
	}},
	{"inverted", func(h *history) (relaytest.Kind, string) {
		e, i := h.pick(func(e relaytest.Event) bool { return e.Position > 1 })
		a, b := h.place(e.ID), h.place(h.committed[i-1].ID)
		h.deliveries[a], h.deliveries[b] = h.deliveries[b], h.deliveries[a]
		return relaytest.Inverted, e.ID
	}},
	{"scattered", func(h *history) (relaytest.Kind, string) {
		e, _ := h.pick(func(e relaytest.Event) bool { return e.Position > 1 })
		h.deliveries[h.place(e.ID)].Stream = "elsewhere"
		return relaytest.Scattered, e.ID
	}},
	{"duplicate", func(h *history) (relaytest.Kind, string) {
		e, _ := h.pick(func(relaytest.Event) bool { return true })
		n := h.place(e.ID)
		h.deliveries = slices.Insert(h.deliveries, n+1+h.random.IntN(len(h.deliveries)-n), h.deliveries[n])
		return relaytest.DuplicateUnexplained, e.ID
	}},
}

// TestAnyPlantedFaultIsFoundExactly: nothing is found in a random history, and with one fault that one and nothing else.
func TestAnyPlantedFaultIsFoundExactly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := newHistory(seed).report()
		require.NoError(t, r.Err(), "seed %d: %s", seed, r)
		for _, fault := range faults {
			h := newHistory(seed)
			kind, id := fault.plant(h)
			r := h.report()
			var want relaytest.Report
			want.Found[kind] = 1
			require.Equal(t, want.Found, r.Found, "seed %d, %s: %s", seed, fault.name, r)
			require.Equal(t, id, r.Examples[kind][0].Event.ID, "seed %d, %s", seed, fault.name)
		}
	}
}

// BenchmarkMillion tells how long and how much memory a million events take.
func BenchmarkMillion(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		c := relaytest.NewChecker(relaytest.Config{})
		for i := range 1_000_000 {
			e := relaytest.Event{ID: fmt.Sprintf("%036d", i), AggregateType: "order", AggregateID: fmt.Sprint(i % 200), Position: int64(i/200 + 1)}
			c.Intended(e)
			c.Committed(e.ID)
			c.Delivered(relaytest.Delivery{ID: e.ID, AggregateType: "order", AggregateID: e.AggregateID, At: epoch})
		}
		if err := c.Report().Err(); err != nil {
			b.Fatal(err)
		}
	}
}
