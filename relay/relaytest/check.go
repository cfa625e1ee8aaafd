package relaytest

import (
	"cmp"
	"fmt"
	"slices"
)

// Report says what was found so far. It may be called more than once.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.report.clone()
	var ordered []*event
	for i := range c.events {
		e := &c.events[i]
		c.count(e)
		switch {
		case !e.intended:
			if e.end != unknown {
				c.note(Inconsistent, e, "its end is known, but nobody intended it")
			}
			if e.first > 0 {
				c.note(Invented, e, "nobody intended it")
			}
		case e.end == rolledBack:
			if e.first > 0 {
				c.note(Invented, e, "its transaction was rolled back")
			}
		case e.aggregate >= 0 && e.position != Unordered:
			ordered = append(ordered, e)
		case e.end == committed && e.first == 0:
			c.note(Lost, e, "it was committed and never delivered")
		}
	}
	slices.SortFunc(ordered, func(a, b *event) int {
		return cmp.Or(cmp.Compare(a.aggregate, b.aggregate), cmp.Compare(a.position, b.position))
	})
	for len(ordered) > 0 {
		n := run(ordered, func(e *event) int64 { return int64(e.aggregate) })
		c.order(ordered[:n])
		ordered = ordered[n:]
	}
	found := c.report
	c.report = before
	return found
}

func (c *Checker) count(e *event) {
	switch {
	case !e.intended:
	case e.end == committed:
		c.report.Committed++
	case e.end == rolledBack:
		c.report.RolledBack++
	default:
		c.report.Unknown++
	}
}

// run is how many events at the beginning have the same number.
func run(events []*event, number func(*event) int64) int {
	n := 1
	for n < len(events) && number(events[n]) == number(events[0]) {
		n++
	}
	return n
}

// order checks the events of one aggregate that were not rolled back, sorted by position.
func (c *Checker) order(events []*event) {
	var last *event // delivered last of those before
	next := int64(1)
	var open []*event // one with each of these positions must have committed if something behind them has
	for len(events) > 0 {
		n := run(events, func(e *event) int64 { return e.position })
		e := c.settle(events[:n])
		if e == nil {
			open = append(open, events[0])
		} else {
			c.gaps(e, next, open)
			next, open = e.position+1, nil
		}
		if e != nil && e.first > 0 {
			if last != nil && e.first < last.first {
				c.note(Inverted, e, fmt.Sprintf("it was delivered before number %d, %s", last.position, last.id))
			} else {
				last = e
			}
		}
		events = events[n:]
	}
}

// settle finds which of the events with one position has committed, and returns nil if that is unknown or nobody has.
func (c *Checker) settle(events []*event) *event {
	var truth *event
	for _, e := range events {
		switch {
		case e.end != committed:
		case truth == nil:
			truth = e
		default:
			c.note(Inconsistent, e, "another one with its position has committed, too: "+truth.id)
		}
	}
	for _, e := range events {
		switch {
		case e.end == committed && e.first == 0:
			c.note(Lost, e, "it was committed and never delivered")
		case e.end == committed || e.first == 0:
		case truth == nil:
			truth = e // so it did commit
		default:
			c.note(Invented, e, "it can't have committed, as another one has its position: "+truth.id)
		}
	}
	return truth
}

// gaps accounts for the positions from next up to that of e, which has committed, so somebody with each of them must have, too.
func (c *Checker) gaps(e *event, next int64, open []*event) {
	if c.config.Sparse {
		return
	}
	for _, o := range open {
		c.note(Lost, o, fmt.Sprintf("its end was not logged, but it has committed, as number %d has: %s", e.position, e.id))
	}
	if missing := e.position - next - int64(len(open)); missing > 0 {
		c.note(Inconsistent, e, fmt.Sprintf("nobody intended %d of the positions before it", missing))
	}
}
