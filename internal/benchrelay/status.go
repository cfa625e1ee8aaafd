package main

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
)

const (
	statusCalls  = 20
	milliseconds = "ms"
)

// status asks for the status of a large backlog and of the ordinary one.
func (b *bench) status(ctx context.Context) error {
	large, err := b.large(ctx)
	if err != nil {
		return err
	}
	small, err := b.outbox(ctx, b.postgres, b.ordinaryBacklog())
	if err != nil {
		return err
	}
	m, err := b.turns(ctx,
		variant{name: "ordinary", run: func(ctx context.Context) (sample, error) { return statusOf(ctx, small) }},
		variant{name: "large", run: func(ctx context.Context) (sample, error) { return statusOf(ctx, large) }},
	)
	if err != nil {
		return err
	}
	b.row(fmt.Sprintf("%s pending, median of %d", number(float64(b.size(largeBacklog))), statusCalls), milliseconds, m.of("large", milliseconds))
	b.row(fmt.Sprintf("%s pending", number(float64(b.size(backlogEvents)))), milliseconds, m.of("ordinary", milliseconds))
	if err := bounded(ctx, small.drop); err != nil {
		return err
	}
	return b.forget(ctx)
}

func statusOf(ctx context.Context, d *database) (result sample, err error) {
	err = d.use(func(db *gorm.DB) error {
		o, err := relay.NewOperator(db, "")
		if err != nil {
			return err
		}
		if _, err := o.Status(ctx); err != nil { // connects
			return err
		}
		took := make([]float64, statusCalls)
		for i := range took {
			begin := time.Now()
			if _, err := o.Status(ctx); err != nil {
				return err
			}
			took[i] = inMilliseconds(time.Since(begin))
		}
		result = sample{milliseconds: median(took)}
		return nil
	})
	return result, err
}

func inMilliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
