package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
)

const (
	writerCount = 8
	writersTime = 5 * time.Second
)

// order is what the writers save.
type order struct {
	_    gormoutbox.Emit `outbox:"aggregate=order"`
	ID   uuid.UUID
	Note string
}

// writers lets writers save as fast as they can, without and beside a relay, which publishes as fast as it can.
func (b *bench) writers(ctx context.Context) error {
	const alone, beside, share = "alone", "beside a relay", "published : written"
	for _, s := range []server{b.postgres, b.mariadb} {
		m, err := b.turns(ctx,
			variant{name: alone, run: func(ctx context.Context) (sample, error) {
				return b.write(ctx, s, func(context.Context, *gorm.DB) error { return nil }, nil)
			}},
			variant{name: beside, run: func(ctx context.Context) (sample, error) {
				pub := &nowhere{}
				return b.write(ctx, s, func(ctx context.Context, db *gorm.DB) error {
					r, err := relay.New(db, pub, relay.Config{Logger: b.log})
					if err != nil {
						return err
					}
					return r.Run(ctx)
				}, func(s sample, written int64) { s[share] = float64(pub.n.Load()) / float64(written) })
			}},
		)
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind(), err)
		}
		what := fmt.Sprintf("%s, %d writers", s.kind(), writerCount)
		b.compare(what, m, alone, beside)
		b.row(what, share, m.of(beside, share))
	}
	return nil
}

// write measures the rate of the writers while something else runs in the same process. The writers' last moment is also
// when finish looks, if there is one: what is behind then was not kept up with.
func (b *bench) write(ctx context.Context, s server, other func(context.Context, *gorm.DB) error, finish func(sample, int64)) (result sample, err error) {
	d, err := b.empty(ctx, s)
	if err != nil {
		return nil, err
	}
	err = d.use(func(db *gorm.DB) error {
		if err := db.Use(gormoutbox.New(gormoutbox.Config{})); err != nil {
			return err
		}
		if err := db.WithContext(ctx).AutoMigrate(&order{}); err != nil {
			return err
		}
		pool, err := db.DB()
		if err != nil {
			return err
		}
		pool.SetMaxIdleConns(2 * writerCount) // or each transaction connects anew
		otherCtx, stop := context.WithCancel(ctx)
		defer stop()
		group, otherCtx := errgroup.WithContext(otherCtx)
		group.Go(func() error { return other(otherCtx, db) })

		begin := time.Now()
		written, err := writeFor(otherCtx, db, b.span(writersTime))
		took := time.Since(begin)
		result = rate(int(written), took)
		if err == nil && finish != nil {
			finish(result, written)
		}
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

// writeFor saves orders for some time and says how many.
func writeFor(ctx context.Context, db *gorm.DB, span time.Duration) (int64, error) {
	var written atomic.Int64
	end := time.Now().Add(span)
	group, ctx := errgroup.WithContext(ctx)
	for range writerCount {
		group.Go(func() error {
			db := db.WithContext(ctx)
			for time.Now().Before(end) {
				o := order{ID: uuid.New(), Note: string(payload())}
				err := gormoutbox.Transaction(db, func(tx *gorm.DB) error { return tx.Create(&o).Error })
				if err != nil {
					return fmt.Errorf("saving: %w", err)
				}
				written.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return written.Load(), err
}
