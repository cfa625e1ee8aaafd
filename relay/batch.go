package relay

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// batches is a sender over a publisher that takes a whole page at once and reports on each message. Of an aggregate only what
// stands before its first failure counts as published.
type batches struct {
	publisher watermilladapter.BatchPublisher
	// timeout is how long the outcomes of one batch are waited for.
	timeout time.Duration
	// valid says whether the partition is still leased.
	valid func(part int) bool
	// lost is a batch whose call has not returned although its time is over; there is no other one until it has.
	lost atomic.Pointer[call]
}

var _ sender = (*batches)(nil)

// hungGrace is how long a publisher has to return when its context has ended.
const hungGrace = time.Second

// call is one call of PublishBatch.
type call struct {
	done chan struct{}
	errs []error
	// panicked says that it panicked, or that its answer has not one error for each message.
	panicked error
}

// send implements sender. ctx ends when publishes in flight are given up.
func (b *batches) send(ctx context.Context, stop <-chan struct{}, items []item) []outcome {
	select {
	case <-stop:
		return nil
	default:
	}
	p := b.prepare(items)
	if len(p.batch) > 0 {
		b.publish(ctx, p)
	}
	return p.outcomes()
}

// prepared is a page as a batch. Its lanes are those of byKey.
type prepared struct {
	lanes [][]*item
	batch []watermilladapter.Outgoing
	// at is where a lane's messages stand in the batch, which are its first ones.
	at    []int
	sizes []int
	// unreadable has the error of the item behind them.
	unreadable []error
	errs       []error // of the batch; a nil slice means that it was not published
	took       time.Duration
}

func (b *batches) prepare(items []item) *prepared {
	p := &prepared{lanes: byKey(items)}
	n := len(p.lanes)
	p.at, p.sizes, p.unreadable = make([]int, n), make([]int, n), make([]error, n)
	p.batch = make([]watermilladapter.Outgoing, 0, len(items))
	for i, lane := range p.lanes {
		p.at[i] = len(p.batch)
		if !b.valid(lane[0].Part) {
			continue
		}
		for _, it := range lane {
			msg, err := watermilladapter.ToMessage(it.Record)
			if err != nil {
				p.unreadable[i] = err
				break
			}
			p.batch = append(p.batch, watermilladapter.Outgoing{Topic: watermilladapter.Topic(it.Record), Message: msg})
			p.sizes[i]++
		}
	}
	return p
}

// publish publishes the batch and takes its errors. A panic, and an answer that does not fit, says nothing about any message:
// then each lane is tried one message at a time, so that only the one that causes it fails.
func (b *batches) publish(ctx context.Context, p *prepared) {
	begin := time.Now()
	defer func() { p.took = time.Since(begin) }()
	var wrong error
	if p.errs, wrong = b.call(ctx, p.batch); wrong == nil {
		return
	}
	p.errs = make([]error, len(p.batch))
	for i := range p.lanes {
		var failed error
		for n := p.at[i]; n < p.at[i]+p.sizes[i]; n++ {
			if failed == nil {
				var errs []error
				if errs, failed = b.call(ctx, p.batch[n:n+1]); failed == nil {
					failed = errs[0]
				}
			}
			p.errs[n] = failed
		}
	}
}

// call waits for the publisher until its time is over. What is not known then may have been published: it counts as failed.
func (b *batches) call(ctx context.Context, batch []watermilladapter.Outgoing) (errs []error, wrong error) {
	if c := b.lost.Load(); c != nil {
		select {
		case <-c.done:
			b.lost.Store(nil)
		default:
			return all(errHung, len(batch)), nil
		}
	}
	limited, cancel := context.WithTimeout(ctx, b.timeout)
	for _, o := range batch {
		o.Message.SetContext(ctx) // not one that ends here: a consumer in this process may go on with it
	}
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		defer func() {
			if v := recover(); v != nil {
				c.panicked = &panicError{v}
			}
		}()
		c.errs = b.publisher.PublishBatch(limited, batch)
		if len(c.errs) != len(batch) {
			c.panicked = fmt.Errorf("relay: the publisher returned %d errors for %d messages", len(c.errs), len(batch))
		}
	}()
	select {
	case <-c.done:
		return c.errs, c.panicked
	case <-limited.Done():
	}
	// It was told to end, too. A publisher that takes long to hear it is left behind.
	grace := time.NewTimer(hungGrace)
	defer grace.Stop()
	select {
	case <-c.done:
		return c.errs, c.panicked
	case <-grace.C:
		b.lost.Store(c)
		return all(ErrPublishTimeout, len(batch)), nil
	}
}

func all(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// wait implements sender.
func (b *batches) wait(ctx context.Context) bool {
	c := b.lost.Load()
	if c == nil {
		return true
	}
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// outcomes are the contiguous successes of each lane and its first failure.
func (p *prepared) outcomes() []outcome {
	out := make([]outcome, 0, len(p.batch))
	succeeded := 0 // lanes in which something was published
	for i, lane := range p.lanes {
		errs := p.errs[p.at[i] : p.at[i]+p.sizes[i]]
		if p.unreadable[i] != nil {
			errs = append(slices.Clip(errs), p.unreadable[i])
		}
		if len(errs) > 0 && errs[0] == nil {
			succeeded++
		}
		for n, err := range errs {
			// Until all lanes are counted "others" says that the lane itself has a success.
			out = append(out, outcome{item: lane[n], err: err, others: n > 0, took: p.took})
			if err != nil {
				break
			}
		}
	}
	for i := range out {
		own := 0
		if out[i].others {
			own = 1
		}
		out[i].others = out[i].err != nil && succeeded > own
	}
	return out
}
