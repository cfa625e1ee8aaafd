package relay

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// The sweep is a safety net: a look at everything below the low marks, from where
// nothing is read otherwise. What it finds either broke the rule by which a mark moves (on
// MySQL, a row written longer than Config.SettleWindow after its number was drawn) or was made
// pending again by hand. Such an event is published late rather than never; those of its
// aggregate may have gone before it.
const (
	firstSweep = time.Minute
	nextSweep  = 10 * time.Minute
	// A sweep is made in steps, so that many kept events do not hold up the others: so many rows of so many partitions, and a pause.
	sweepRows  = 10_000
	sweepParts = 8
	sweepPause = 500 * time.Millisecond
)

// sweeping is how far a sweep has come.
type sweeping struct {
	// part is the partition that is looked at (PostgreSQL), after the number behind which the next step begins.
	part  int
	after int64
}

// sweep makes one step. It returns the pending events of the leased partitions that it found at or below their low marks, and says whether it
// was the last step.
func (s *store) sweep(ctx context.Context, leases []lease, low func(lease) int64, at *sweeping, limit int) (found []item, done bool, err error) {
	if s.dialect.Name() != "postgres" {
		found, done, err = s.sweepRange(ctx, leases, low, at, limit)
	} else {
		found, done, err = s.sweepPartitions(ctx, leases, low, at, limit)
	}
	if err != nil {
		return nil, false, fmt.Errorf("sweeping: %w", err)
	}
	if done {
		*at = sweeping{}
	}
	return found, done, nil
}

// sweepPartitions looks at some partitions, one after the other.
func (s *store) sweepPartitions(ctx context.Context, leases []lease, low func(lease) int64, at *sweeping, limit int) (found []item, done bool, err error) {
	parts := 0
	for i, l := range leases { // in order
		if l.part < at.part {
			continue
		}
		if parts++; parts > sweepParts {
			return nil, false, nil
		}
		if l.part > at.part {
			*at = sweeping{part: l.part}
		}
		found, done, err = s.sweepRange(ctx, leases[i:i+1], low, at, limit)
		if err != nil || len(found) > 0 || !done {
			return found, false, err
		}
		*at = sweeping{part: l.part + 1}
	}
	return nil, true, nil
}

// sweepRange looks at the next numbers of some partitions. It says whether there are no more.
func (s *store) sweepRange(ctx context.Context, leases []lease, low func(lease) int64, at *sweeping, limit int) (found []item, done bool, err error) {
	highest, lows := int64(0), make(map[int]int64, len(leases))
	for _, l := range leases {
		lows[l.part] = low(l)
		highest = max(highest, lows[l.part])
	}
	in, args := s.partsIn("e.part", leases)
	if len(leases) == 1 { // an index gives no order to the rows of a list
		in, args = "e.part = ?", []any{leases[0].part}
	}
	rows, last := 0, int64(0)
	query := "SELECT COUNT(*), COALESCE(MAX(x.seq), 0) FROM (SELECT e.seq FROM " + s.events + " e" + s.bySeq + " WHERE " + in +
		" AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT " + strconv.Itoa(sweepRows) + ") x"
	err = s.query(ctx, s.db, query, append(args, at.after, highest), func(r *sql.Rows) error { return r.Scan(&rows, &last) })
	if err != nil || rows == 0 {
		return nil, true, err
	}
	query = "SELECT " + s.columns() + " FROM " + s.events + " e" + s.bySeq + s.besideHeld() + " WHERE " + in + " AND e.seq > ? AND e.seq <= ? AND " + s.pending() +
		" ORDER BY e.seq LIMIT " + strconv.Itoa(limit)
	var all []item
	cut, err := s.scanItems(ctx, query, append(args, at.after, last), &all)
	if err != nil {
		return nil, false, err
	}
	full := cut || len(all) >= limit
	at.after = last
	if full {
		at.after = all[len(all)-1].Seq
	}
	for _, it := range all {
		if it.Seq <= lows[it.Part] {
			found = append(found, it)
		}
	}
	return found, !full && rows < sweepRows, nil
}

// swept makes a step of a sweep if it is time to, and says so if that was needed.
func (r *Relay) swept(ctx context.Context, st *loopState, owned []lease) ([]item, error) {
	now := time.Now()
	if st.nextSweep.IsZero() {
		st.nextSweep = now.Add(r.firstSweep)
	}
	if now.Before(st.nextSweep) {
		return nil, nil
	}
	found, done, err := r.store.sweep(ctx, owned, r.reader.low, &st.sweep, r.config.BatchSize)
	switch {
	case err != nil || done:
		st.nextSweep = now.Add(nextSweep)
	default:
		st.nextSweep = now.Add(sweepPause)
	}
	if len(found) > 0 {
		r.config.Logger.LogAttrs(ctx, slog.LevelWarn, "relay found pending events below its low marks and publishes them late",
			slog.String("relay", r.config.ID), slog.String("table", r.config.Table), slog.Int("events", len(found)))
	}
	return found, err
}

// with puts late events before a page, without those that the page has itself.
func (p page) with(late []item) []item {
	have := make(map[int64]bool, len(p.items))
	for i := range p.items {
		have[p.items[i].Seq] = true
	}
	out := make([]item, 0, len(late)+len(p.items))
	for _, it := range late {
		if !have[it.Seq] {
			out = append(out, it)
		}
	}
	return append(out, p.items...)
}
