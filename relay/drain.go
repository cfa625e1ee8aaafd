package relay

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
)

// Drain publishes what is pending when it is called and then returns nil, for tests, jobs and the last step of a
// deployment. It is Run with an end: like that it can be called once, takes its share of the partitions beside other relays and waits for those that
// have the others. It waits for events that are to be tried again, and not for those that are parked, that stand behind a parked one,
// or whose AvailableAt is not reached. If ctx ends before, it stops as Run does and returns an error that wraps the context's.
func (r *Relay) Drain(ctx context.Context) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	drained := false
	high := int64(-1) // not known yet
	idle := func(ctx context.Context) {
		now, err := high, error(nil)
		if now < 0 {
			now, err = r.store.highest(ctx)
		}
		if err == nil {
			high = now
			drained, err = r.store.drained(ctx, high)
		}
		if err != nil && ctx.Err() == nil {
			r.log(ctx, slog.LevelError, "relay can't see whether all is published and looks again", err)
		}
		if drained {
			stop()
		}
	}
	if err := r.run(inner, idle); err != nil {
		return err
	}
	if !drained {
		return fmt.Errorf("relay: not all events were published: %w", context.Cause(inner))
	}
	return nil
}

// highest is the last number that is committed, 0 if there is none.
func (s *store) highest(ctx context.Context) (high int64, err error) {
	query := "SELECT COALESCE(MAX((SELECT MAX(e.seq) FROM " + s.events + " e WHERE e.part = p.part)), 0) FROM " + s.partitions + " p"
	if s.dialect.Name() != "postgres" {
		query = "SELECT COALESCE(MAX(seq), 0) FROM " + s.events // it has an index of its own
	}
	err = s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error { return rows.Scan(&high) })
	if err != nil {
		return 0, fmt.Errorf("reading the highest number: %w", err)
	}
	return high, nil
}

// drained says that no event up to a number is to be published, and that no aggregate waits for its next attempt with one.
func (s *store) drained(ctx context.Context, high int64) (ok bool, err error) {
	open := "SELECT 1 FROM " + s.events + " e" + s.besideHeld() + " WHERE e.part = p.part AND e.seq > p.low AND e.seq <= ? AND " + s.pending() + " ORDER BY e.seq LIMIT 1"
	pending := "EXISTS (SELECT 1 FROM " + s.partitions + " p WHERE (" + open + ") = 1)"
	if s.dialect.Name() != "postgres" {
		pending = "EXISTS (SELECT 1 FROM " + s.events + " e" + s.bySeq + s.besideHeld() + " WHERE e.seq > (SELECT MIN(low) FROM " + s.partitions + ") AND e.seq <= ? AND " + s.pending() + ")"
	}
	due := "SELECT 1 FROM " + s.events + " e" + s.besideHeld() + " WHERE e.available_at <= " + s.now() + " AND e.seq <= ? AND e.processed_at IS NULL AND e.parked_at IS NULL AND " + s.notHeld()
	retry := "SELECT 1 FROM " + s.held + " h WHERE h.until IS NOT NULL AND h.seq <= ?"
	query := "SELECT CASE WHEN " + pending + " OR EXISTS (" + due + ") OR EXISTS (" + retry + ") THEN 1 ELSE 0 END"
	err = s.query(ctx, s.db, query, []any{high, high, high}, func(rows *sql.Rows) error {
		var some int
		err := rows.Scan(&some)
		ok = some == 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("looking for pending events: %w", err)
	}
	return ok, nil
}
