package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/relay/pgwake"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const (
	latencyRate = 2000 // events a second
	latencyTime = 10 * time.Second
	latencyIdle = 30 * time.Second // until the last event is published
)

// latency is the time from the commit of an event to its Publish, at a steady rate.
func (b *bench) latency(ctx context.Context) error {
	names := []string{"the writers' process", "another process, pgwake"}
	m, err := b.turns(ctx,
		variant{name: names[0], run: func(ctx context.Context) (sample, error) { return b.delays(ctx, sameProcess) }},
		variant{name: names[1], run: func(ctx context.Context) (sample, error) { return b.delays(ctx, otherProcess) }},
	)
	if err != nil {
		return err
	}
	for _, name := range names {
		what := fmt.Sprintf("relay in %s, %d writers", name, writerCount)
		for _, measure := range []string{"p50, ms", "p99, ms", "events/s"} {
			b.row(what, measure, m.of(name, measure))
		}
	}
	return nil
}

// side runs the relay, and what wakes it, for writers on db until ctx ends. It tells when it is there.
type side func(ctx context.Context, b *bench, d *database, db *gorm.DB, publisher *nowhere, ready chan<- struct{}) error

// sameProcess lets the plugin wake the relay.
func sameProcess(ctx context.Context, b *bench, _ *database, db *gorm.DB, publisher *nowhere, ready chan<- struct{}) error {
	r, err := relay.New(db, publisher, relay.Config{Logger: b.log})
	if err != nil {
		return err
	}
	close(ready)
	return r.Run(ctx)
}

// otherProcess has a pool without the plugin, so that nothing but the notifications can wake the relay before its poll.
func otherProcess(ctx context.Context, b *bench, d *database, db *gorm.DB, publisher *nowhere, ready chan<- struct{}) error {
	plugin, err := gormoutbox.On(db)
	if err != nil {
		return err
	}
	config := pgwake.Config{ConnString: d.dsn, Logger: b.log}
	notifier, err := pgwake.NewNotifier(plugin, config)
	if err != nil {
		return err
	}
	listener, err := pgwake.NewListener(config)
	if err != nil {
		return err
	}
	connected := listener.Subscribe()
	return d.use(func(db *gorm.DB) error {
		r, err := relay.New(db, publisher, relay.Config{Wake: listener.Subscribe(), Logger: b.log})
		if err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return notifier.Run(ctx) })
		group.Go(func() error { return listener.Run(ctx) })
		group.Go(func() error { return r.Run(ctx) })
		group.Go(func() error {
			select {
			case <-ctx.Done():
			case <-connected:
				close(ready)
			}
			return nil
		})
		return group.Wait()
	})
}

// delays measures one side.
func (b *bench) delays(ctx context.Context, other side) (result sample, err error) {
	d, err := b.empty(ctx, b.postgres)
	if err != nil {
		return nil, err
	}
	err = d.use(func(db *gorm.DB) error {
		if err := db.Use(gormoutbox.New(gormoutbox.Config{})); err != nil {
			return err
		}
		pool, err := db.DB()
		if err != nil {
			return err
		}
		pool.SetMaxIdleConns(2 * writerCount)
		running, stop := context.WithCancel(ctx)
		defer stop()
		group, running := errgroup.WithContext(running)
		p := newPostmarks(int(b.span(latencyTime).Seconds() * latencyRate))
		ready := make(chan struct{})
		group.Go(func() error { return other(running, b, d, db, &nowhere{each: p.batch}, ready) })
		result, err = p.measure(running, db, ready)
		stop()
		if failure := group.Wait(); failure != nil {
			err = failure // the cause
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, bounded(ctx, d.drop)
}

// postmarks are the times at which numbered events were committed and published, in nanoseconds since the begin.
type postmarks struct {
	begin     time.Time
	committed []atomic.Int64
	published []atomic.Int64
	left      atomic.Int64
	first     chan struct{} // the event of before the others is published
	begun     func()        // closes it
	all       chan struct{}
}

// beforeAll is the number of an event that shows that the relay runs.
const beforeAll = "before"

func newPostmarks(n int) *postmarks {
	first := make(chan struct{})
	p := &postmarks{
		begin: time.Now(), committed: make([]atomic.Int64, n), published: make([]atomic.Int64, n),
		first: first, begun: sync.OnceFunc(func() { close(first) }), all: make(chan struct{}),
	}
	p.left.Store(int64(n))
	return p
}

// batch notes the time at which the relay called it.
func (p *postmarks) batch(_ context.Context, batch []watermilladapter.Outgoing) error {
	now := time.Since(p.begin).Nanoseconds()
	for _, out := range batch {
		name := string(out.Message.Payload)
		if name == beforeAll {
			p.begun()
			continue
		}
		i, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("an event that is not ours: %w", err)
		}
		if !p.published[i].CompareAndSwap(0, now) {
			continue // again
		}
		if p.left.Add(-1) == 0 {
			close(p.all)
		}
	}
	return nil
}

// measure writes the events when the relay is ready, and waits until they are published.
func (p *postmarks) measure(ctx context.Context, db *gorm.DB, ready <-chan struct{}) (sample, error) {
	db = db.WithContext(ctx)
	if err := gormoutbox.Append(db, gormoutbox.Event{Type: "a.happened", Payload: beforeAll}); err != nil {
		return nil, err
	}
	for _, signal := range []<-chan struct{}{ready, p.first} {
		if err := within(ctx, latencyIdle, signal); err != nil {
			return nil, fmt.Errorf("waiting for the relay: %w", err)
		}
	}
	begin := time.Now()
	if err := p.write(ctx, db, begin); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	if err := within(ctx, latencyIdle, p.all); err != nil {
		return nil, fmt.Errorf("waiting for the last event: %w", err)
	}
	delays := make([]float64, len(p.published))
	for i := range delays {
		// The relay may be faster than the writer hears of its own commit.
		delays[i] = inMilliseconds(max(0, time.Duration(p.published[i].Load()-p.committed[i].Load())))
	}
	slices.Sort(delays)
	return sample{
		"p50, ms": delays[len(delays)/2], "p99, ms": delays[len(delays)*99/100],
		"events/s": float64(len(delays)) / took.Seconds(),
	}, nil
}

// write lets the writers begin one transaction after the other at their times. A writer that is late does not skip any.
func (p *postmarks) write(ctx context.Context, db *gorm.DB, begin time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range writerCount {
		group.Go(func() error {
			db := db.WithContext(ctx)
			timer := time.NewTimer(0)
			defer timer.Stop()
			for i := w; i < len(p.committed); i += writerCount {
				timer.Reset(time.Until(begin.Add(time.Duration(i) * time.Second / latencyRate)))
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-timer.C:
				}
				err := gormoutbox.Transaction(db, func(tx *gorm.DB) error {
					return gormoutbox.Append(tx, gormoutbox.Event{
						AggregateType: ordinary, AggregateID: strconv.Itoa(i % backlogKeys), Type: "a.happened", Payload: strconv.Itoa(i),
					})
				})
				if err != nil {
					return fmt.Errorf("saving: %w", err)
				}
				p.committed[i].Store(time.Since(p.begin).Nanoseconds())
			}
			return nil
		})
	}
	return group.Wait()
}

var errTooLate = errors.New("it takes too long")

// within waits for a signal.
func within(ctx context.Context, limit time.Duration, signal <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLate)
	defer cancel()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-signal:
		return nil
	}
}
