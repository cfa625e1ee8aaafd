package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const snapshotEvents = 1_000_000

// lastToFirst is a measure: the rate at which the last tenth of a backlog was published, to that of the first.
const lastToFirst = "last tenth : first tenth"

// heldSnapshot drains a backlog while another session keeps what the relay leaves behind from being cleaned up, or the low marks from
// moving. What it costs grows in the course of the run, so each run is compared with its own beginning.
func (b *bench) heldSnapshot(ctx context.Context) error {
	c := content{pending: b.size(snapshotEvents), keys: backlogKeys}
	sessions := []struct {
		name  string
		begin func(context.Context, *sql.DB) (*sql.Tx, error)
	}{
		{"no other session", func(context.Context, *sql.DB) (*sql.Tx, error) { return nil, nil }},
		{"an old snapshot", oldSnapshot},
		{"a writing transaction elsewhere", writingTransaction},
	}
	variants := make([]variant, len(sessions))
	for i, s := range sessions {
		variants[i] = variant{name: s.name, run: func(ctx context.Context) (sample, error) { return b.beside(ctx, c, s.begin) }}
	}
	m, err := b.turns(ctx, variants...)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		b.row(s.name, lastToFirst, m.of(s.name, lastToFirst))
	}
	for _, s := range sessions[1:] {
		b.row("all of it", s.name+" : none", m.ratios(s.name, sessions[0].name, perSecond))
	}
	b.row("all of it", "none"+perSecond, m.of(sessions[0].name, perSecond))
	return b.forget(ctx)
}

// beside drains while a transaction is open.
func (b *bench) beside(ctx context.Context, c content, begin func(context.Context, *sql.DB) (*sql.Tx, error)) (result sample, err error) {
	d, err := b.outbox(ctx, b.postgres, c)
	if err != nil {
		return nil, err
	}
	err = d.pool(func(pool *sql.DB) error {
		tx, err := begin(ctx, pool)
		if err != nil {
			return fmt.Errorf("opening the other session: %w", err)
		}
		if tx != nil {
			defer tx.Rollback()
		}
		clock := newStopwatch(c.pending)
		pub := &nowhere{each: clock.batch}
		_, took, err := b.drain(ctx, d, pub, relay.Config{})
		if err != nil {
			return err
		}
		result = rate(c.pending, took)
		result[lastToFirst] = clock.lastToFirst()
		return pub.all(c.pending)
	})
	if err != nil {
		return nil, err
	}
	return result, bounded(ctx, d.drop)
}

// oldSnapshot holds the snapshot of before the first event was settled.
func oldSnapshot(ctx context.Context, pool *sql.DB) (*sql.Tx, error) {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM outbox_partitions").Scan(&n); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// writingTransaction has written to a table that is nobody else's, so it has an id.
func writingTransaction(ctx context.Context, pool *sql.DB) (*sql.Tx, error) {
	if _, err := pool.ExecContext(ctx, "CREATE TABLE benchrelay_elsewhere (n integer)"); err != nil {
		return nil, err
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO benchrelay_elsewhere VALUES (1)"); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// stopwatch notes when the tenths of a backlog begin and end. It has its own count, since a batch is counted by the publisher only behind it.
type stopwatch struct {
	total int

	mu     sync.Mutex
	n      int
	begin  time.Time
	first  time.Time // the first tenth was over
	ninth  time.Time // the ninth one was over
	counts [3]int    // how many there were at first, at ninth and at the end
	last   time.Time
}

func newStopwatch(total int) *stopwatch { return &stopwatch{total: total} }

func (s *stopwatch) batch(_ context.Context, batch []watermilladapter.Outgoing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.begin.IsZero() {
		s.begin = now
	}
	// At the begin of a batch what stood before it is done.
	if s.first.IsZero() && s.n*10 >= s.total {
		s.first, s.counts[0] = now, s.n
	}
	if s.ninth.IsZero() && s.n*10 >= s.total*9 {
		s.ninth, s.counts[1] = now, s.n
	}
	s.last, s.counts[2] = now, s.n
	s.n += len(batch)
	return nil
}

func (s *stopwatch) lastToFirst() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := float64(s.counts[0]) / s.first.Sub(s.begin).Seconds()
	last := float64(s.counts[2]-s.counts[1]) / s.last.Sub(s.ninth).Seconds()
	return last / first
}
