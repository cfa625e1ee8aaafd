package relay

import (
	"context"
	"time"
)

// pacer waits between two reads: not at all after work or a signal, else twice as
// long each time.
type pacer struct {
	low, high time.Duration
	next      time.Duration
	committed <-chan struct{}
	pending   <-chan struct{}
	signal    <-chan struct{} // Config.Wake
	// fast is until when the pause stays short.
	fast time.Time
}

func newPacer(low, high time.Duration) *pacer { return &pacer{low: low, high: high, next: low} }

// wait returns when it is time to read again or ctx ends.
func (p *pacer) wait(ctx context.Context, worked bool) {
	if worked {
		p.next, p.fast = p.low, time.Time{}
		return // there may be more
	}
	t := time.NewTimer(p.next)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.committed:
			p.next = p.low
			return
		case _, open := <-p.signal:
			if !open {
				p.signal = nil // or it would be received for ever
				continue
			}
			p.next = p.low
			return
		case <-p.pending:
			p.fast = time.Now().Add(pendingWindow)
			p.next = p.low
			t.Reset(p.next)
		case <-t.C:
			if time.Now().After(p.fast) {
				p.next = min(2*p.next, p.high)
			}
			return
		}
	}
}
