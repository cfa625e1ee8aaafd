package relay

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// postgresReader reads each partition from its low mark in one statement, whose
// snapshot also says which transactions are in flight.
//
// Why nothing is lost or overtaken: every event carries a transaction id that
// was drawn before its number. A settlement's own id is above the ids of all
// transactions that had drawn a number before the settled page was read. Once a
// snapshot has no running transaction below that id, everything up to the
// page's end is visible to it; the read in that snapshot still begins at the
// old mark, and only then the mark moves.
type postgresReader struct {
	*store
	*marks
	query string
	// first rotates the partition that is read first, since a full page may not reach the last.
	first int
}

func newPostgresReader(s *store) *postgresReader {
	r := &postgresReader{store: s, marks: newMarks()}
	r.query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, e.* FROM (VALUES (1)) one LEFT JOIN LATERAL (SELECT p.* FROM " +
		"unnest(?::int[], ?::bigint[]) AS o (part, low) CROSS JOIN LATERAL (SELECT " + s.columns() + " FROM " + s.events +
		" e WHERE e.part = o.part AND e.seq > o.low AND " + s.pending() + " ORDER BY e.seq LIMIT ?::bigint) p LIMIT ?::bigint) e ON true"
	return r
}

// read implements reader.
func (r *postgresReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	n := len(leases)
	parts, lows := make([]int64, n), make([]int64, n)
	for i := range n {
		l := leases[(r.first+i)%n]
		parts[i], lows[i] = int64(l.part), r.marks.low(l)
	}
	p := page{covered: make(map[int]int64, n)}
	args := []any{dialect.IntArray(parts), dialect.IntArray(lows), limit, limit}
	err := r.store.query(ctx, r.db, r.query, args, func(rows *sql.Rows) error {
		var row nullItem
		if err := rows.Scan(append([]any{&p.horizon}, row.targets()...)...); err != nil {
			return err
		}
		if row.seq.Valid {
			p.items = append(p.items, row.item())
		}
		return nil
	})
	if err != nil {
		return page{}, fmt.Errorf("reading events: %w", err)
	}
	r.cover(&p, parts, limit)
	return p, nil
}

// cover says how far the page goes: partitions before the last one of a full page
// were read to their end, those behind it not at all.
func (r *postgresReader) cover(p *page, parts []int64, limit int) {
	full := len(p.items) >= limit
	var last *item
	if full {
		last = &p.items[len(p.items)-1]
	}
	for i, part := range parts {
		if full && int(part) == last.Part {
			p.covered[last.Part] = last.Seq
			r.first = (r.first + i + 1) % len(parts)
			return
		}
		p.covered[int(part)] = math.MaxInt64
	}
}

// settled implements reader.
func (r *postgresReader) settled(p page, s settlement) { r.move(p, s, s.stamp) }
