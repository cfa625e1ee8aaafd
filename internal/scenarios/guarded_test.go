package scenarios_test

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

var (
	errPoison = errors.New("the broker refuses this event")
	errBehind = errors.New("not sent, since one before it was refused")
)

// guard refuses the head of one aggregate until it is cured, and watches what it is offered of that aggregate meanwhile.
type guard struct {
	sink      *sink
	aggregate string
	head      string // the id of the event

	mu    sync.Mutex
	cured bool
	heads int // how often the head was offered
	// behind is how many rows behind the head were offered with it, in one batch, and calls how many such batches there were.
	behind, calls int
	// alone is how many rows behind the head were offered without it: none must be.
	alone int
}

// guarded publishes one by one.
type guarded struct{ *guard }

var _ message.Publisher = guarded{}

// Publish implements message.Publisher.
func (g guarded) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := g.offer(msg); err != nil {
			return err
		}
		g.sink.deliver(msg)
	}
	return nil
}

// Close implements message.Publisher.
func (g guarded) Close() error { return errors.New("a relay must not close the publisher") }

// guardedBatches publishes batches. Behind the head nothing of its aggregate is sent, as a BatchPublisher promises.
type guardedBatches struct {
	guarded

	// next gets what is not refused, unless it is nil.
	next watermilladapter.BatchPublisher
}

var _ watermilladapter.BatchPublisher = guardedBatches{}

// PublishBatch implements watermilladapter.BatchPublisher.
func (g guardedBatches) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	errs := make([]error, len(batch))
	refused, behind := false, 0
	var passed []watermilladapter.Outgoing
	var places []int // of those in the batch
	for i, out := range batch {
		switch {
		case refused && out.Message.Metadata.Get(gormoutbox.HeaderAggregateID) == g.aggregate:
			errs[i] = errBehind
			behind++
		default:
			if errs[i] = g.offer(out.Message); errs[i] != nil {
				refused = true
				continue
			}
			passed, places = append(passed, out), append(places, i)
		}
	}
	if g.next != nil && len(passed) > 0 {
		for i, err := range g.next.PublishBatch(ctx, passed) {
			errs[places[i]] = err
		}
	}
	for i, out := range passed {
		if errs[places[i]] == nil {
			g.sink.deliver(out.Message)
		}
	}
	if behind > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.behind += behind
		g.calls++
	}
	return errs
}

// offer refuses the head, and notes rows that are offered without it.
func (g *guard) offer(msg *message.Message) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.cured || msg.Metadata.Get(gormoutbox.HeaderAggregateID) != g.aggregate:
		return nil
	case msg.UUID == g.head:
		g.heads++
		return errPoison
	default:
		g.alone++
		return nil // it is delivered, so that the ledger has it too
	}
}

func (g *guard) cure() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cured = true
}
