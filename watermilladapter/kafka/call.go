package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// What is known of a record when the network is shut.
var (
	errNotSent = errors.New("it was not sent")
	errUnknown = errors.New("it may have arrived")
)

// ended says why ctx has ended: ctx.Err and the cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // whether it is the very same
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// outcome is what became of a record.
type outcome struct {
	err error
	// fenced says that the network was shut because of something else.
	fenced bool
}

// call collects the outcomes of some records.
type call struct {
	finished chan struct{}

	mu       sync.Mutex
	outcomes []outcome
	known    []bool
	left     int
}

func newCall(n int) *call {
	return &call{finished: make(chan struct{}), outcomes: make([]outcome, n), known: make([]bool, n), left: n}
}

func (c *call) settle(index int, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(index, o)
}

func (c *call) set(index int, o outcome) {
	c.outcomes[index], c.known[index] = o, true
	if c.left--; c.left == 0 {
		close(c.finished)
	}
}

// skip settles the records from the index on, which the producer did not get.
func (c *call) skip(from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := from; i < len(c.outcomes); i++ {
		c.set(i, outcome{err: errNotSent, fenced: true})
	}
}

// take returns the outcomes so far.
func (c *call) take() []outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := slices.Clone(c.outcomes)
	for i, known := range c.known {
		if !known {
			taken[i] = outcome{err: errUnknown, fenced: true}
		}
	}
	return taken
}
