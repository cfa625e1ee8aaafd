package relaytest

import (
	"fmt"
	"time"
)

// Unordered is the Position of an event without a place in an order.
const Unordered int64 = 0

// Event is an event as its writer logs it.
type Event struct {
	// ID tells the event from all others.
	ID string
	// AggregateType and AggregateID say whose event it is. Both empty means no aggregate and no order.
	AggregateType string
	AggregateID   string
	// Position is the place in the aggregate's commit order, from 1 on, such as a version
	// that is counted under the lock of the aggregate's row. A transaction that was
	// rolled back leaves its positions to others.
	Position int64
}

// Delivery is an event as a consumer received it.
type Delivery struct {
	ID            string
	AggregateType string
	AggregateID   string
	// Stream is what keeps an order: a partition, a queue. The events of an aggregate belong into one.
	Stream string
	At     time.Time
}

// Cause is what made an event arrive once more.
type Cause int

const (
	// Unexplained means that nothing happened that allows for a duplicate.
	Unexplained Cause = iota
	// Crash means that somebody ended without having said what was published.
	Crash
	// Graceful means that nothing happened but what must cause no duplicates, such as an orderly stop.
	Graceful
)

// String implements fmt.Stringer.
func (c Cause) String() string {
	switch c {
	case Unexplained:
		return "unexplained"
	case Crash:
		return "crash"
	case Graceful:
		return "graceful"
	default:
		return fmt.Sprintf("Cause(%d)", int(c))
	}
}

// Duplicate is a delivery of an event that had been delivered before.
type Duplicate struct {
	Delivery

	// First is the time of the first delivery.
	First time.Time
}

// CauseFunc says what caused a duplicate.
type CauseFunc func(Duplicate) Cause

// Window is a time in which duplicates have a cause: from the fault until the events
// that were pending at its end have been settled.
type Window struct {
	Name     string
	Cause    Cause
	From, To time.Time
}

// Contains says whether the window has t, its ends included.
func (w Window) Contains(t time.Time) bool { return !t.Before(w.From) && !t.After(w.To) }

// ByWindows explains a duplicate by the windows in which it arrived: by a crash if
// there is one, else by what is graceful.
func ByWindows(windows ...Window) CauseFunc {
	return func(d Duplicate) Cause {
		cause := Unexplained
		for _, w := range windows {
			if !w.Contains(d.At) {
				continue
			}
			if w.Cause == Crash {
				return Crash
			}
			cause = w.Cause
		}
		return cause
	}
}
