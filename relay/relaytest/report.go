package relaytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrBroken is what Report.Err wraps.
var ErrBroken = errors.New("relaytest: a promise was broken")

// Kind is a kind of finding.
type Kind int

const (
	// Lost events were committed and never delivered.
	Lost Kind = iota
	// Invented events were delivered and not committed: never intended, rolled back, or of another aggregate.
	Invented
	// Inverted events had their first delivery before the first one of an event that stands before them.
	Inverted
	// Scattered events came in another stream than others of their aggregate.
	Scattered
	// DuplicateCrash is a delivery that was not the first of its event, and a crash explains it.
	DuplicateCrash
	// DuplicateGraceful is one for which there is no better reason than what must not cause any.
	DuplicateGraceful
	// DuplicateUnexplained is one for which there is no reason.
	DuplicateUnexplained
	// Inconsistent is a mistake of the history itself: its writers or their log are wrong.
	Inconsistent

	kinds
)

var kindNames = [kinds]string{
	"lost", "invented", "inverted", "scattered", "duplicates after crashes", "duplicates after graceful stops", "unexplained duplicates", "inconsistent history",
}

// String implements fmt.Stringer.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Finding is one thing that was found.
type Finding struct {
	Kind   Kind
	Event  Event
	Detail string
}

// String implements fmt.Stringer.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%s %s, number %d): %s", f.Kind, f.Event.ID, f.Event.AggregateType, f.Event.AggregateID, f.Event.Position, f.Detail)
}

// Report is what a Checker found.
type Report struct {
	// Intended counts events; Committed, RolledBack and Unknown are what became of them by their writers' logs.
	Intended, Committed, RolledBack, Unknown int
	// Deliveries counts all of them, Delivered the events.
	Deliveries, Delivered int
	// Found counts findings by kind.
	Found [kinds]int
	// Examples are the first findings of each kind.
	Examples map[Kind][]Finding
}

// Lost is how many events were lost.
func (r Report) Lost() int { return r.Found[Lost] }

// Invented is how many events were delivered that were not committed.
func (r Report) Invented() int { return r.Found[Invented] }

// Inverted is how many first deliveries came too early.
func (r Report) Inverted() int { return r.Found[Inverted] }

// Duplicates is how many deliveries with this cause were not the first of their event.
func (r Report) Duplicates(cause Cause) int {
	switch cause {
	case Crash:
		return r.Found[DuplicateCrash]
	case Graceful:
		return r.Found[DuplicateGraceful]
	default:
		return r.Found[DuplicateUnexplained]
	}
}

// Err returns an error that wraps ErrBroken and names what was found, or nil if that is nothing but duplicates after crashes.
func (r Report) Err() error {
	var bad []string
	for k, n := range r.Found {
		if n > 0 && Kind(k) != DuplicateCrash {
			bad = append(bad, fmt.Sprintf("%d %s", n, Kind(k)))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBroken, strings.Join(bad, ", "))
}

// String lists counts and examples, a line each.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events intended: %d committed, %d rolled back, %d unknown\n", r.Intended, r.Committed, r.RolledBack, r.Unknown)
	fmt.Fprintf(&b, "%d deliveries of %d events\n", r.Deliveries, r.Delivered)
	for k, n := range r.Found {
		fmt.Fprintf(&b, "%d %s\n", n, Kind(k))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Examples)) {
		for _, f := range r.Examples[k] {
			fmt.Fprintf(&b, "  %s\n", f)
		}
	}
	return b.String()
}

func (r Report) clone() Report {
	examples := make(map[Kind][]Finding, len(r.Examples))
	for k, list := range r.Examples {
		examples[k] = slices.Clone(list)
	}
	r.Examples = examples
	return r
}

// note counts a finding. The lock is held.
func (c *Checker) note(k Kind, e *event, detail string) {
	c.report.Found[k]++
	if len(c.report.Examples[k]) >= c.config.Examples {
		return
	}
	f := Finding{Kind: k, Event: Event{ID: e.id, Position: e.position}, Detail: detail}
	if e.aggregate >= 0 {
		a := c.aggregates[e.aggregate]
		f.Event.AggregateType, f.Event.AggregateID = a.kind, a.id
	}
	c.report.Examples[k] = append(c.report.Examples[k], f)
}
