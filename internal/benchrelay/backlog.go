package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const (
	largeBacklog = 5_000_000
	keptEvents   = 3_000_000
	behindEvents = 1_000_000
)

// large is the outbox with the large backlog. It is made once, and gets back what was published of it, behind what is left.
func (b *bench) large(ctx context.Context) (*database, error) {
	n := b.size(largeBacklog)
	if b.big == nil {
		if err := b.room(ctx, 2*n); err != nil {
			return nil, err
		}
		d, err := b.empty(ctx, b.postgres)
		if err != nil {
			return nil, err
		}
		b.big = d
	}
	if missing := n - b.bigLeft; missing > 0 {
		begin := time.Now()
		if err := b.big.fill(ctx, events{aggregate: ordinary, n: missing, keys: backlogKeys}); err != nil {
			return nil, err
		}
		b.bigLeft = n
		b.log.InfoContext(ctx, "large backlog is filled", slog.String("figure", b.figure), slog.Duration("took", time.Since(begin)))
	}
	return b.big, nil
}

// published is a measure: how many events were, of which some may be behind those that count.
const published = "published"

// backlog publishes as many events out of a large backlog as the ordinary one has.
func (b *bench) backlog(ctx context.Context) error {
	c := b.ordinaryBacklog()
	m, err := b.turns(ctx,
		variant{name: "ordinary", run: func(ctx context.Context) (sample, error) {
			d, err := b.outbox(ctx, b.postgres, c)
			if err != nil {
				return nil, err
			}
			s, err := b.firstOf(ctx, d, c.pending)
			if err != nil {
				return nil, err
			}
			return s, bounded(ctx, d.drop)
		}},
		variant{name: "large", run: func(ctx context.Context) (sample, error) {
			d, err := b.large(ctx)
			if err != nil {
				return nil, err
			}
			s, err := b.firstOf(ctx, d, c.pending)
			b.bigLeft -= int(s[published])
			return s, err
		}},
	)
	if err != nil {
		return err
	}
	b.compare(fmt.Sprintf("%s pending, large: %s", number(float64(c.pending)), number(float64(b.size(largeBacklog)))), m, "ordinary", "large")
	return b.forget(ctx)
}

// firstOf publishes n events and stops, leaving what is behind.
func (b *bench) firstOf(ctx context.Context, d *database, n int) (result sample, err error) {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	pub := &nowhere{}
	var took time.Duration
	var begin time.Time
	enough := sync.OnceFunc(func() {
		took = time.Since(begin)
		stop()
	})
	pub.each = func(_ context.Context, batch []watermilladapter.Outgoing) error {
		if pub.n.Load()+int64(len(batch)) >= int64(n) {
			enough()
		}
		return nil
	}
	err = d.use(func(db *gorm.DB) error {
		r, err := relay.New(db, pub, relay.Config{Logger: b.log})
		if err != nil {
			return err
		}
		begin = time.Now()
		return r.Run(inner)
	})
	if err == nil && took == 0 {
		err = fmt.Errorf("%d events were published, which are too few", pub.n.Load())
	}
	if err != nil {
		return nil, err
	}
	result = rate(n, took)
	result[published] = float64(pub.n.Load())
	return result, nil
}

// kept drains above many published events that are still there.
func (b *bench) kept(ctx context.Context) error {
	c := b.ordinaryBacklog()
	above := c
	above.kept = b.size(keptEvents)
	return b.besideOrdinary(ctx, fmt.Sprintf("%s pending above %s kept", number(float64(c.pending)), number(float64(above.kept))), c, above)
}

// behindHeld drains beside many events of one aggregate that wait for a parked one.
func (b *bench) behindHeld(ctx context.Context) error {
	c := b.ordinaryBacklog()
	above := c
	above.behind = b.size(behindEvents)
	return b.besideOrdinary(ctx, fmt.Sprintf("%s pending beside %s behind a parked one", number(float64(c.pending)), number(float64(above.behind))), c, above)
}

// besideOrdinary compares the drain of a backlog with that of the same backlog alone.
func (b *bench) besideOrdinary(ctx context.Context, what string, alone, beside content) error {
	m, err := b.turns(ctx,
		b.drained("alone", b.postgres, alone, relay.Config{}),
		b.drained("beside", b.postgres, beside, relay.Config{}),
	)
	if err != nil {
		return err
	}
	b.compare(what, m, "alone", "beside")
	b.row(what, "beside : alone, until the last page", m.ratios("beside", "alone", untilLast))
	return b.forget(ctx)
}
