package relay

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// walkPages is how long a walk is on PostgreSQL. The read after it passes once over what the walk has published.
const walkPages = 64

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
	// turn is the partition that is read first, since a full page may not reach the last.
	turn int
	// seen has the transactions that were open in the last snapshot, and since when.
	seen map[int64]time.Time
	now  func() time.Time
}

func newPostgresReader(s *store) *postgresReader {
	return &postgresReader{store: s, marks: newMarks(), seen: map[int64]time.Time{}, now: time.Now}
}

// first reads a page from the low marks. Its first row is the snapshot and, for the begin of a walk, the highest number that can be seen.
func (r *postgresReader) first(walk bool, limit int) string {
	high := "NULL::bigint"
	if walk {
		high = "(SELECT MAX(m.seq) FROM unnest(?::int[]) AS o (part) CROSS JOIN LATERAL (SELECT MAX(e.seq) AS seq FROM " + r.events + " e WHERE e.part = o.part) m)"
	}
	return "SELECT pg_current_snapshot()::text, " + high + strings.Repeat(", NULL", itemColumns-1) + " UNION ALL (" + r.pages("NULL", "", limit) + ")"
}

// behind reads a later page of a walk. It tells of each event whether the begin of the walk could see its transaction.
func (r *postgresReader) behind(limit int) string {
	return r.pages("pg_visible_in_snapshot(e.xid, ?::text::pg_snapshot)", " AND e.seq <= ?::bigint", limit)
}

// pages reads pending events partition by partition.
//
// The planner must choose the index in any state of its statistics: with those of a time at which nearly everything was
// published, or none yet, it expects so few pending rows that it reads and sorts the whole partition for each page, a backlog of millions too.
// Therefore the conditions are a CASE, which it can't look into, and each row is joined to one row of
// a function of which it expects a thousand. The limits are literals, or it would plan for a tenth of the table and compile the plan.
func (r *postgresReader) pages(extra, condition string, limit int) string {
	lim := fmt.Sprint(limit)
	return "SELECT p.* FROM unnest(?::int[], ?::bigint[]) AS o (part, low) CROSS JOIN LATERAL (SELECT (" + extra + ")::text, " + r.columns() + " FROM " +
		r.events + " e CROSS JOIN LATERAL generate_series(o.part, o.part) WHERE e.part = o.part AND e.seq > o.low" + condition +
		" AND " + r.pending() + " ORDER BY e.seq LIMIT " + lim + ") p LIMIT " + lim
}

// read implements reader.
func (r *postgresReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	if behind := r.onward(leases); behind != nil {
		return r.next(ctx, leases, *behind, limit)
	}
	for {
		p, s, err := r.begin(ctx, leases, limit)
		if err != nil {
			return page{}, fmt.Errorf("reading events: %w", err)
		}
		if r.endBystanders(s) {
			continue // behind what can be read now something may stand that could not when the marks passed it
		}
		r.age(s, r.seen, r.now())
		p.horizon = r.horizon(s)
		if p.walk != nil {
			p.walk.horizon = p.horizon
		}
		return p, nil
	}
}

// begin reads a page from the low marks, and the snapshot in which it does.
func (r *postgresReader) begin(ctx context.Context, leases []lease, limit int) (p page, s snapshot, err error) {
	p.covered = make(map[int]int64, len(leases))
	from := r.places(leases)
	parts, lows := arrays(from)
	args := []any{parts, lows}
	if r.full {
		args = append([]any{parts}, args...)
	}
	var text string
	var high int64
	budget := r.budget()
	err = r.store.query(ctx, r.db, r.first(r.full, limit), args, func(rows *sql.Rows) error {
		extra, row, err := scanWith(rows)
		if err != nil {
			return err
		}
		if text == "" {
			text, high = extra, row.seq.Int64
			return nil
		}
		p.items = append(p.items, row.item())
		return budget.take(&p.items[len(p.items)-1])
	})
	cut := budget.cut(&err)
	if err != nil {
		return page{}, s, err
	}
	if s, err = parseSnapshot(text); err != nil {
		return page{}, s, err
	}
	if r.full {
		p.walk = &walk{leases: signature(leases), high: high, snapshot: text, pages: walkPages}
	}
	p.cover(from, limit, cut, nil)
	return p, s, nil
}

// next implements reader.
func (r *postgresReader) next(ctx context.Context, _ []lease, behind page, limit int) (page, error) {
	p := behind.follow()
	parts, lows := arrays(behind.rest)
	var stop *place
	budget := r.budget()
	err := r.store.query(ctx, r.db, r.behind(limit), []any{parts, lows, p.walk.snapshot, p.walk.high}, func(rows *sql.Rows) error {
		seen, row, err := scanWith(rows)
		if err != nil {
			return err
		}
		it := row.item()
		if seen != "true" {
			stop = &place{it.Part, it.Seq}
			return errEnough
		}
		p.items = append(p.items, it)
		return budget.take(&p.items[len(p.items)-1])
	})
	cut := budget.cut(&err)
	if err != nil {
		return page{}, fmt.Errorf("reading on: %w", err)
	}
	p.cover(behind.rest, limit, cut, stop)
	return p, nil
}

// scanWith reads a row that has a text before the columns of an event.
func scanWith(rows *sql.Rows) (string, nullItem, error) {
	var text sql.NullString
	var row nullItem
	err := rows.Scan(append([]any{&text}, row.targets()...)...)
	return text.String, row, err
}

// places are where the leased partitions are read from, in the order in which they are read.
func (r *postgresReader) places(leases []lease) []place {
	n, begin := len(leases), 0
	for begin < n && leases[begin].part < r.turn {
		begin++
	}
	out := make([]place, n)
	for i := range n {
		l := leases[(begin+i)%n]
		out[i] = place{l.part, r.from(l)}
	}
	return out
}

func arrays(places []place) (parts, seqs any) {
	p, s := make([]int64, len(places)), make([]int64, len(places))
	for i, at := range places {
		p[i], s[i] = int64(at.part), at.seq
	}
	return dialect.IntArray(p), dialect.IntArray(s)
}

// settled implements reader.
func (r *postgresReader) settled(p page, s settlement) {
	r.move(p, s, s.stamp)
	r.walked(p, s)
	if p.full && len(p.rest) > 0 {
		r.turn = p.rest[0].part
		if p.walk == nil {
			r.turn++ // the others have their turn
		}
	}
}
