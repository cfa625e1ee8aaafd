package relay

import (
	"context"
	"fmt"
	"log/slog"
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
)

// sweep returns pending events of the leased partitions at or below their low marks.
func (s *store) sweep(ctx context.Context, leases []lease, low func(lease) int64, limit int) ([]item, error) {
	highest, lows := int64(0), make(map[int]int64, len(leases))
	for _, l := range leases {
		lows[l.part] = low(l)
		highest = max(highest, lows[l.part])
	}
	in, args := s.partsIn("e.part", leases)
	query := "SELECT " + s.columns() + " FROM " + s.events + " e WHERE " + in + " AND e.seq <= ? AND " + s.pending() + " ORDER BY e.seq LIMIT ?"
	var all []item
	if _, err := s.scanItems(ctx, query, append(args, highest, limit), &all); err != nil {
		return nil, fmt.Errorf("sweeping: %w", err)
	}
	below := all[:0]
	for _, it := range all {
		if it.Seq <= lows[it.Part] {
			below = append(below, it)
		}
	}
	return below, nil
}

// swept sweeps if it is time to, and says so if that was needed.
func (r *Relay) swept(ctx context.Context, st *loopState, owned []lease) ([]item, error) {
	now := time.Now()
	if st.nextSweep.IsZero() {
		st.nextSweep = now.Add(r.firstSweep)
	}
	if now.Before(st.nextSweep) {
		return nil, nil
	}
	st.nextSweep = now.Add(nextSweep)
	found, err := r.store.sweep(ctx, owned, r.reader.low, r.config.BatchSize)
	if len(found) > 0 {
		r.config.Logger.LogAttrs(ctx, slog.LevelWarn, "relay found pending events below its low marks and publishes them late",
			slog.String("relay", r.config.ID), slog.String("table", r.config.Table), slog.Int("events", len(found)))
		st.nextSweep = now // there may be more
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
