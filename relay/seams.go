package relay

import (
	"context"
	"time"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// The three seams: what to publish next, publishing it, and recording what
// happened. Beside them the loop asks the store for what the reader passes over by
// design: due heads and delayed events, holds without an event, and the sweep.

// reader finds the events to publish next.
type reader interface {
	// read returns pending events of the leased partitions; events of one aggregate are in order and
	// none is missing before one that is returned.
	read(ctx context.Context, leases []lease, limit int) (page, error)
	// next returns what stands behind a page of a walk that goes on. It may be called before that page is settled, beside settled.
	next(ctx context.Context, leases []lease, behind page, limit int) (page, error)
	// settled tells what became of a page, so that the next read may begin later. It returns whether a walk goes on behind the page: not if
	// something before its end is pending, as it is when an aggregate was released.
	settled(p page, s settlement) (onward bool)
	// fallBack makes the next read of a partition begin at seq or before.
	fallBack(part int, seq int64)
	// low is where the next read of a partition begins, to be saved for its next owner.
	low(l lease) int64
}

// sender publishes events, in order within each aggregate.
type sender interface {
	// send returns one outcome for each event that was attempted. It stops an
	// aggregate at its first failure, and everything when stop is done.
	send(ctx context.Context, stop <-chan struct{}, items []item) []outcome
	// wait waits until no call of the publisher is left, and says whether that is so before ctx ends.
	wait(ctx context.Context) bool
}

// settler records outcomes.
type settler interface {
	settle(ctx context.Context, leases []lease, outcomes []decision) (settlement, error)
}

// item is an event to publish.
type item struct {
	gormoutbox.Record
	// head says that the aggregate is held because of this event, which is due now.
	head bool
	// request is what was asked for when a head was read.
	request string
}

// key identifies the aggregate; events without one are keys by themselves.
func (it *item) key() laneKey {
	if it.AggregateType == "" {
		return laneKey{id: it.ID.String()}
	}
	return laneKey{it.AggregateType, it.AggregateID}
}

// hasPlace says whether a due event can go with a page. One that was delayed takes its place in
// the order of its aggregate: the page must reach it.
func (it *item) hasPlace(p page) bool {
	return it.head || it.AggregateType == "" || it.Seq <= p.covered[it.Part]
}

type laneKey struct{ aggregateType, id string }

// page is what one read found.
type page struct {
	items []item
	// covered has for each partition read the number up to which it was read completely.
	covered map[int]int64
	// horizon is the reader's own: what it knew about transactions in flight when it read.
	horizon int64
	bounds  map[int]int64
	// full says that there may be more behind, and walk is what the page is part of, or nil.
	full bool
	walk *walk
	// nth counts the pages of a walk from 0, and rest is where it goes on.
	nth  int
	rest []place
	// width is how many numbers the next page looks at, or on MySQL this one took (not SQLite).
	width int64
}

// place is where a partition is read from: behind a number. A walk by number has one place for all partitions.
type place struct {
	part int
	seq  int64
}

// outcome is what became of one attempt.
type outcome struct {
	item *item
	err  error
	// others says that another aggregate was published since the attempt began.
	others bool
	took   time.Duration
}

// verdict is what is done about an outcome.
type verdict int

const (
	published verdict = iota
	retryLater
	park
	// setAside lets an aggregate wait without charging its event, so that others are read.
	setAside
	// skip takes a head for settled without publishing it, as somebody has asked for.
	skip
	// release lets an aggregate go on whose head was settled or deleted by somebody else.
	release
)

// decision is an outcome with what is done about it.
type decision struct {
	item    *item
	verdict verdict
	// after is the pause before the next attempt.
	after time.Duration
	err   string
	// policy says how to park.
	policy ParkPolicy
}

// settlement is what was recorded.
type settlement struct {
	// stamp orders this settlement among transactions (PostgreSQL).
	stamp int64
	// done are the numbers that are settled or held now.
	done map[int64]bool
	// held has the aggregates that wait now, with the number of the head; the events from there on count as dealt with.
	held map[laneKey]int64
	// released has the partitions of keys that go on now, with the number from which to read again.
	released map[int]int64
	// lost are partitions whose lease was lost before the outcomes could be recorded.
	lost []int
}
