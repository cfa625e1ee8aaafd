package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const (
	manyRelays     = 4
	batchTime      = 5 * time.Millisecond // of the publisher
	relaysLease    = 3 * time.Second      // partitions are shared out within two of these
	balanceTimeout = time.Minute
	balanceLook    = 100 * time.Millisecond
)

// relays drains with one relay and with several that share the partitions.
func (b *bench) relays(ctx context.Context) error {
	variants := []variant{}
	for _, n := range []int{1, manyRelays} {
		variants = append(variants, variant{name: relayCount(n), run: func(ctx context.Context) (sample, error) { return b.shared(ctx, n) }})
	}
	m, err := b.turns(ctx, variants...)
	if err != nil {
		return err
	}
	b.compare(fmt.Sprintf("%s a batch", batchTime), m, relayCount(1), relayCount(manyRelays))
	return nil
}

func relayCount(n int) string {
	if n == 1 {
		return "1 relay"
	}
	return fmt.Sprintf("%d relays", n)
}

// shared lets the relays share out the partitions of an empty outbox, fills it while the publisher makes them wait, and
// measures from when it goes on. Each has its first page by then, of two hundred in all.
func (b *bench) shared(ctx context.Context, count int) (result sample, err error) {
	d, err := b.empty(ctx, b.postgres)
	if err != nil {
		return nil, err
	}
	n := b.size(backlogEvents)
	g := newGate(n)

	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	arrived := make([]chan struct{}, count)
	for i := range arrived {
		arrived[i] = make(chan struct{})
		pub := &nowhere{each: g.member(arrived[i])}
		group.Go(func() error {
			return d.use(func(db *gorm.DB) error {
				r, err := relay.New(db, pub, relay.Config{Lease: relaysLease, PublishTimeout: balanceTimeout, Logger: b.log})
				if err != nil {
					return err
				}
				return r.Run(running)
			})
		})
	}
	measure := func() error {
		if err := d.use(func(db *gorm.DB) error { return balanced(running, db, count) }); err != nil {
			return err
		}
		if err := d.fill(running, events{aggregate: ordinary, n: n, keys: backlogKeys}); err != nil {
			return err
		}
		for _, one := range arrived {
			if err := within(running, balanceTimeout, one); err != nil {
				return fmt.Errorf("waiting for a relay's first page: %w", err)
			}
		}
		begin := time.Now()
		g.release()
		select {
		case <-running.Done():
			return context.Cause(running)
		case <-g.done:
			result = rate(n, time.Since(begin))
			return nil
		}
	}
	err = measure()
	g.release()
	stop()
	if failure := group.Wait(); failure != nil {
		err = failure // the cause
	}
	if err != nil {
		return nil, err
	}
	return result, bounded(ctx, d.drop)
}

// balanced waits until each relay has its share.
func balanced(ctx context.Context, db *gorm.DB, count int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, balanceTimeout, errors.New("the relays don't share out the partitions"))
	defer cancel()
	o, err := relay.NewOperator(db, "")
	if err != nil {
		return err
	}
	look := time.NewTicker(balanceLook)
	defer look.Stop()
	for {
		st, err := o.Status(ctx)
		if err != nil {
			return err
		}
		ready := len(st.Relays) == count
		for _, r := range st.Relays {
			ready = ready && r.Partitions == gormoutbox.DefaultPartitions/count
		}
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
	}
}

// gate is a publisher that takes batchTime for each batch once it is open, and says when all is published.
type gate struct {
	open    chan struct{}
	release func() // opens it
	done    chan struct{}

	mu   sync.Mutex
	left int
}

func newGate(n int) *gate {
	open := make(chan struct{})
	return &gate{open: open, release: sync.OnceFunc(func() { close(open) }), done: make(chan struct{}), left: n}
}

// member is the publisher of one relay, which closes arrived at the first batch.
func (g *gate) member(arrived chan<- struct{}) func(context.Context, []watermilladapter.Outgoing) error {
	arrive := sync.OnceFunc(func() { close(arrived) })
	return func(ctx context.Context, batch []watermilladapter.Outgoing) error {
		arrive()
		return g.batch(ctx, batch)
	}
}

func (g *gate) batch(ctx context.Context, batch []watermilladapter.Outgoing) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.open:
	}
	if err := taking(batchTime)(ctx, batch); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left -= len(batch); g.left == 0 {
		close(g.done)
	}
	return nil
}
