package relay

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/gormoutbox/outbox/internal/pause"
)

const (
	// retainEvery is the pause between two rounds of removing old events.
	retainEvery = time.Minute
	// retainRows is how many rows one statement looks at, and removes at most.
	retainRows = 1000
)

// retain removes events that were published longer ago than Config.Retention, until ctx ends. Each partition is the
// business of its owner, so no two relays do the same work; if they do, for a moment, it does no harm.
func (r *Relay) retain(ctx context.Context) {
	if r.config.Retention == KeepForever {
		return
	}
	for pause.Sleep(ctx, r.retainEvery) {
		for _, l := range r.leases.current() {
			if err := r.retainPart(ctx, l); err != nil && ctx.Err() == nil {
				r.log(ctx, slog.LevelError, "relay could not remove old events and tries again later", err)
				break
			}
		}
	}
}

// retainPart goes through a partition from its begin to the low mark that is saved, step by step. It stops where a step finds
// nothing but younger events: they were published in about the order of their numbers.
func (r *Relay) retainPart(ctx context.Context, l lease) error {
	for after := int64(0); ctx.Err() == nil; {
		step, err := r.store.oldest(ctx, l.part, after, r.config.Retention)
		if err != nil {
			return err
		}
		if len(step.old) > 0 {
			if err := r.store.removeOld(ctx, l.part, step.old, r.config.Retention); err != nil {
				return err
			}
		}
		if step.looked < retainRows || len(step.old) == 0 && step.young > 0 {
			return nil
		}
		after = step.last
	}
	return nil
}

// oldEvents are what one look at a partition found.
type oldEvents struct {
	looked, young int
	last          int64
	old           []int64
}

// oldest looks at the next rows of a partition below its low mark. Those that are not published, because they are
// parked, held or delayed, are passed over.
func (s *store) oldest(ctx context.Context, part int, after int64, age time.Duration) (o oldEvents, err error) {
	query := "SELECT e.seq, CASE WHEN e.processed_at IS NULL THEN 0 WHEN e.processed_at < " + s.dialect.NowPlus(-age) + " THEN 2 ELSE 1 END FROM " + s.events +
		" e WHERE e.part = ? AND e.seq > ? AND e.seq <= (SELECT low FROM " + s.partitions + " WHERE part = ?) ORDER BY e.seq LIMIT ?"
	err = s.query(ctx, s.db, query, []any{part, after, part, retainRows}, func(rows *sql.Rows) error {
		var seq int64
		var state int
		if err := rows.Scan(&seq, &state); err != nil {
			return err
		}
		o.looked, o.last = o.looked+1, seq
		switch state {
		case 1:
			o.young++
		case 2:
			o.old = append(o.old, seq)
		}
		return nil
	})
	if err != nil {
		return oldEvents{}, fmt.Errorf("looking for old events: %w", err)
	}
	return o, nil
}

// removeOld deletes events if they are still published and old: one may have been replayed meanwhile.
func (s *store) removeOld(ctx context.Context, part int, seqs []int64, age time.Duration) error {
	in, args := s.dialect.IntsIn("seq", seqs)
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		_, err := s.exec(ctx, tx, "DELETE FROM "+s.events+" WHERE part = ? AND "+in+" AND processed_at < "+s.dialect.NowPlus(-age), append([]any{part}, args...)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("removing old events: %w", err)
	}
	return nil
}
