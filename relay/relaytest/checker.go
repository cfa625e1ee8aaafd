package relaytest

import (
	"cmp"
	"sync"
	"time"
)

// Config configures a Checker. Zero values mean defaults.
type Config struct {
	// Cause says what caused a duplicate. Defaults to Unexplained for all.
	Cause CauseFunc
	// Sparse says that positions may have gaps. By default the events that committed have
	// the positions of their aggregate from 1 on without a gap, which tells what became of
	// events with an unknown end: below one that committed, somebody must have committed.
	Sparse bool
	// Examples is how many findings of each kind a report lists. Defaults to 5.
	Examples int
}

// Checker compares what was written with what was delivered. Histories and deliveries
// may come in any order, also interleaved, but deliveries of a stream in theirs. It
// is safe for concurrent use.
//
//  1. What is intended may be delivered, but does not have to be.
//  2. What is committed must be delivered.
//  3. What is rolled back must not be delivered, nor what nobody intended.
//  4. For one aggregate the first deliveries come in the order of positions, in one stream.
//
// An event whose writer crashed between its COMMIT and its log is intended and no
// more: log the intent before COMMIT, when the position is known.
type Checker struct {
	config Config

	mu         sync.Mutex
	events     []event
	index      map[string]int32
	aggregates []aggregate
	names      map[aggregateName]int32
	streams    map[string]int32
	report     Report // what is known so far
}

type end uint8

const (
	unknown end = iota
	committed
	rolledBack
)

// event is what is known of one.
type event struct {
	id        string
	aggregate int32 // -1 without one
	end       end
	intended  bool
	position  int64
	first     int64 // number of the first delivery, 0 if there is none
	firstAt   int64 // nanoseconds since the epoch
}

type aggregateName struct{ kind, id string }

type aggregate struct {
	aggregateName

	stream int32 // of its first delivery, 0 before
}

// NewChecker returns a Checker that knows of nothing.
func NewChecker(config Config) *Checker {
	config.Examples = cmp.Or(config.Examples, 5)
	if config.Cause == nil {
		config.Cause = func(Duplicate) Cause { return Unexplained }
	}
	return &Checker{
		config: config, index: map[string]int32{}, names: map[aggregateName]int32{}, streams: map[string]int32{},
		report: Report{Examples: map[Kind][]Finding{}},
	}
}

// Intended says that a writer is about to commit these events.
func (c *Checker) Intended(events ...Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range events {
		e := c.event(in.ID)
		a := c.aggregate(in.AggregateType, in.AggregateID)
		switch {
		case e.intended:
			c.note(Inconsistent, e, "it was intended twice")
			continue
		case e.first > 0 && e.aggregate != a:
			c.note(Invented, e, "it was delivered for another aggregate")
		}
		e.intended, e.aggregate, e.position = true, a, in.Position
		c.report.Intended++
	}
}

// Committed says that the transaction of these events has committed.
func (c *Checker) Committed(ids ...string) { c.ended(committed, ids) }

// RolledBack says that the transaction of these events has not committed and never will.
func (c *Checker) RolledBack(ids ...string) { c.ended(rolledBack, ids) }

func (c *Checker) ended(how end, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		e := c.event(id)
		switch e.end {
		case unknown:
			e.end = how
		case how:
		default:
			c.note(Inconsistent, e, "it was both committed and rolled back")
		}
	}
}

// Delivered says that a consumer has received an event.
func (c *Checker) Delivered(d Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Deliveries++
	e := c.event(d.ID)
	a := c.aggregate(d.AggregateType, d.AggregateID)
	if e.first > 0 {
		c.duplicate(e, d)
		return
	}
	c.report.Delivered++
	e.first, e.firstAt = int64(c.report.Deliveries), d.At.UnixNano()
	switch {
	case !e.intended:
		e.aggregate = a
	case e.aggregate != a:
		c.note(Invented, e, "it was delivered for another aggregate")
	}
	if a >= 0 {
		c.stream(e, a, d.Stream)
	}
}

func (c *Checker) duplicate(e *event, d Delivery) {
	cause := c.config.Cause(Duplicate{Delivery: d, First: time.Unix(0, e.firstAt)})
	kind := DuplicateUnexplained
	switch cause {
	case Unexplained:
	case Crash:
		kind = DuplicateCrash
	case Graceful:
		kind = DuplicateGraceful
	}
	c.note(kind, e, "again at "+d.At.UTC().Format(time.RFC3339Nano)+" in stream "+d.Stream+
		", first at "+time.Unix(0, e.firstAt).UTC().Format(time.RFC3339Nano))
}

// stream notes an aggregate whose events are in more than one stream, where nobody can keep an order.
func (c *Checker) stream(e *event, a int32, name string) {
	n, ok := c.streams[name]
	if !ok {
		n = int32(len(c.streams) + 1) //nolint:gosec // streams are few
		c.streams[name] = n
	}
	switch of := &c.aggregates[a]; of.stream {
	case 0:
		of.stream = n
	case n:
	default:
		c.note(Scattered, e, "it is in stream "+name+", others of its aggregate are elsewhere")
	}
}

// event returns the event, made if need be. The pointer is good until the next call.
func (c *Checker) event(id string) *event {
	n, ok := c.index[id]
	if !ok {
		n = int32(len(c.events)) //nolint:gosec // memory ends before
		c.index[id] = n
		c.events = append(c.events, event{id: id, aggregate: -1})
	}
	return &c.events[n]
}

func (c *Checker) aggregate(kind, id string) int32 {
	name := aggregateName{kind, id}
	if name == (aggregateName{}) {
		return -1
	}
	n, ok := c.names[name]
	if !ok {
		n = int32(len(c.aggregates)) //nolint:gosec // memory ends before
		c.names[name] = n
		c.aggregates = append(c.aggregates, aggregate{aggregateName: name})
	}
	return n
}
