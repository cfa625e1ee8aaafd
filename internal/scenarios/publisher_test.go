package scenarios_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay/relaytest"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// sink is a broker in memory with one stream. It tells the ledger what it gets, in the order in which it gets it.
type sink struct {
	ledger *ledger

	mu      sync.Mutex
	seen    map[string]struct{}
	changed chan struct{}
}

func newSink(l *ledger) *sink {
	return &sink{ledger: l, seen: map[string]struct{}{}, changed: make(chan struct{}, 1)}
}

func (s *sink) deliver(msg *message.Message) {
	s.mu.Lock()
	s.ledger.Delivered(relaytest.Delivery{
		ID: msg.UUID, AggregateType: msg.Metadata.Get(gormoutbox.HeaderAggregateType), AggregateID: msg.Metadata.Get(gormoutbox.HeaderAggregateID),
		At: time.Now(),
	})
	s.seen[msg.UUID] = struct{}{}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// count is how many events have come.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// wait returns when n events have come, and fails if nothing comes any more.
func (s *sink) wait(t *testing.T, n int) {
	t.Helper()
	idle := time.NewTimer(patience)
	defer idle.Stop()
	for s.count() < n {
		select {
		case <-s.changed:
			idle.Reset(patience)
		case <-idle.C:
			assert.Fail(t, "events don't come", "%d of %d came", s.count(), n)
			return
		}
	}
}

// oneByOne publishes into a sink and takes a moment for it, before and behind the delivery.
type oneByOne struct {
	sink *sink
	// most is how long a call takes.
	most time.Duration
}

var _ message.Publisher = (*oneByOne)(nil)

// Publish implements message.Publisher.
func (p *oneByOne) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		p.pause()
		p.sink.deliver(msg)
		p.pause()
	}
	return nil
}

func (p *oneByOne) pause() {
	if p.most > 0 {
		load(rand.N(p.most / 2))
	}
}

// Close implements message.Publisher.
func (p *oneByOne) Close() error { return errors.New("a relay must not close the publisher") }

// inBatches does it for whole batches.
type inBatches struct{ oneByOne }

var _ watermilladapter.BatchPublisher = (*inBatches)(nil)

// PublishBatch implements watermilladapter.BatchPublisher.
func (p *inBatches) PublishBatch(_ context.Context, batch []watermilladapter.Outgoing) []error {
	p.pause()
	for _, out := range batch {
		p.sink.deliver(out.Message)
	}
	p.pause()
	return make([]error, len(batch))
}
