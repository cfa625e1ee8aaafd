package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// nowhere takes whole batches and does nothing with them.
type nowhere struct {
	// each, if set, is called for each batch before it counts. An error is that of all its messages.
	each func(ctx context.Context, batch []watermilladapter.Outgoing) error
	n    atomic.Int64

	mu   sync.Mutex
	last time.Time
}

var _ watermilladapter.BatchPublisher = (*nowhere)(nil)

func (p *nowhere) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	errs := make([]error, len(batch))
	if p.each != nil {
		if err := p.each(ctx, batch); err != nil {
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	p.n.Add(int64(len(batch)))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	return errs
}

// lastBatch is when it got its last batch.
func (p *nowhere) lastBatch() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Publish implements message.Publisher. A relay does not call it.
func (p *nowhere) Publish(_ string, messages ...*message.Message) error {
	p.n.Add(int64(len(messages)))
	return nil
}

// Close implements message.Publisher.
func (p *nowhere) Close() error { return nil }

// all says whether it got so many events.
func (p *nowhere) all(n int) error {
	if got := p.n.Load(); got != int64(n) {
		return fmt.Errorf("%d events were published and not %d", got, n)
	}
	return nil
}

// taking is a publisher that takes its time for each batch.
func taking(d time.Duration) func(context.Context, []watermilladapter.Outgoing) error {
	return func(ctx context.Context, _ []watermilladapter.Outgoing) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		}
	}
}
