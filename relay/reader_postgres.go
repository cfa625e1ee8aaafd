package relay

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	// turn is the partition that is read first, since a full page may not reach the last.
	turn int
	// seen has the transactions that were open in the last snapshot, and since when.
	seen map[int64]time.Time
	now  func() time.Time
}

func newPostgresReader(s *store) *postgresReader {
	return &postgresReader{store: s, marks: newMarks(), seen: map[int64]time.Time{}, now: time.Now}
}

// ordinary reads a page from the low marks, partition by partition. Its first row is the snapshot.
//
// The planner must choose the index in any state of its statistics: with those of a time at which nearly everything was
// published, or none yet, it expects so few pending rows that it reads and sorts the whole partition for each page, a backlog of millions too.
// Therefore the conditions are a CASE, which it can't look into, and each row is joined to one row of
// a function of which it expects a thousand. The limits are literals, or it would plan for a tenth of the table and compile the plan.
func (r *postgresReader) ordinary(limit int) string {
	lim := strconv.Itoa(limit)
	return "SELECT pg_current_snapshot()::text" + strings.Repeat(", NULL", itemColumns) + " UNION ALL (SELECT NULL, p.* FROM " + leased +
		" CROSS JOIN LATERAL (SELECT " + r.columns() + " FROM " + r.events + " e CROSS JOIN LATERAL generate_series(o.part, o.part) WHERE e.part = o.part" +
		" AND e.seq > o.low AND " + r.pending() + " ORDER BY e.seq LIMIT " + lim + ") p LIMIT " + lim + ")"
}

// leased are the partitions and where each is read from.
const leased = "unnest(?::int[], ?::bigint[]) AS o (part, low)"

// window reads a page of a walk: the numbers of a window, of all partitions in their order, since rows whose numbers are close stand close to
// each other in the table. Of each event it tells whether the begin of the walk could see its transaction.
func (r *postgresReader) window(limit int) string {
	return "SELECT w.* FROM " + leased + " CROSS JOIN LATERAL (SELECT pg_visible_in_snapshot(e.xid, ?::text::pg_snapshot)::text, " + r.columns() + " FROM " + r.events +
		" e WHERE e.part = o.part AND e.seq > GREATEST(o.low, ?::bigint) AND e.seq <= ?::bigint AND " + r.pending() + " OFFSET 0) w ORDER BY w.seq LIMIT " + strconv.Itoa(limit)
}

// read implements reader.
func (r *postgresReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	if behind := r.onward(leases); behind != nil {
		return r.next(ctx, leases, *behind, limit)
	}
	if r.full { // there is a backlog
		p, err := r.begin(ctx, leases, limit)
		if err != nil || len(p.items) > 0 {
			return p, err
		}
	}
	from := r.places(leases)
	parts, lows := arrays(from)
	for {
		p := page{covered: make(map[int]int64, len(leases))}
		text := ""
		budget := r.budget()
		err := r.store.query(ctx, r.db, r.ordinary(limit), []any{parts, lows}, func(rows *sql.Rows) error {
			extra, row, err := scanWith(rows)
			if err != nil {
				return err
			}
			if text == "" {
				text = extra
				return nil
			}
			p.items = append(p.items, row.item())
			return budget.take(&p.items[len(p.items)-1])
		})
		cut := budget.cut(&err)
		if err != nil {
			return page{}, fmt.Errorf("reading events: %w", err)
		}
		again, err := r.look(text, &p)
		if err != nil {
			return page{}, fmt.Errorf("reading events: %w", err)
		}
		if again {
			from = r.places(leases)
			parts, lows = arrays(from)
			continue
		}
		p.cover(from, limit, cut)
		return p, nil
	}
}

// look learns from the snapshot of a page. It says whether a bystander has ended: then something may stand before what
// can be read now that could not be seen when the marks passed it, and the page is to be read again.
func (r *postgresReader) look(text string, p *page) (again bool, err error) {
	s, err := parseSnapshot(text)
	if err != nil || r.endBystanders(s) {
		return err == nil, err
	}
	r.age(s, r.seen, r.now())
	p.horizon = r.horizon(s)
	return false, nil
}

// begin begins a walk and reads its first page.
func (r *postgresReader) begin(ctx context.Context, leases []lease, limit int) (page, error) {
	for {
		var text string
		var high int64
		query := "SELECT pg_current_snapshot()::text, COALESCE(MAX(m.seq), 0) FROM unnest(?::int[]) AS o (part) CROSS JOIN LATERAL (SELECT MAX(e.seq) AS seq FROM " +
			r.events + " e WHERE e.part = o.part) m"
		from := r.places(leases)
		parts, _ := arrays(from)
		err := r.store.query(ctx, r.db, query, []any{parts}, func(rows *sql.Rows) error { return rows.Scan(&text, &high) })
		if err != nil {
			return page{}, fmt.Errorf("beginning to walk: %w", err)
		}
		var p page
		again, err := r.look(text, &p)
		if err != nil {
			return page{}, fmt.Errorf("beginning to walk: %w", err)
		}
		if again {
			continue
		}
		w := &walk{leases: signature(leases), high: high, horizon: p.horizon, snapshot: text, from: from, pages: walkPages}
		least := r.minFrom(leases)
		return r.next(ctx, leases, page{walk: w, nth: -1, rest: []place{{seq: least}}, width: 4 * int64(limit)}, limit)
	}
}

// next implements reader.
func (r *postgresReader) next(ctx context.Context, leases []lease, behind page, limit int) (page, error) {
	parts, lows := arrays(behind.walk.from)
	for {
		p := behind.follow()
		begin := behind.rest[0].seq
		to := begin + min(behind.width, p.walk.high-begin)
		stop := int64(-1)
		budget := r.budget()
		err := r.store.query(ctx, r.db, r.window(limit), []any{parts, lows, p.walk.snapshot, begin, to}, func(rows *sql.Rows) error {
			seen, row, err := scanWith(rows)
			if err != nil {
				return err
			}
			it := row.item()
			if seen != "true" {
				stop = it.Seq
				return errEnough
			}
			p.items = append(p.items, it)
			return budget.take(&p.items[len(p.items)-1])
		})
		cut := budget.cut(&err)
		if err != nil {
			return page{}, fmt.Errorf("walking on: %w", err)
		}
		p.coverWindow(leases, begin, to, limit, cut, stop)
		if len(p.items) > 0 || !p.goesOn() {
			return p, nil
		}
		if p.rest[0].seq, err = r.nextNumber(ctx, parts, to, p.walk.high); err != nil {
			return page{}, err
		}
		behind.rest, behind.width = p.rest, p.width
	}
}

// nextNumber is the number before the first event above one in some partitions, or high if there is none up to there: numbers may jump, and
// retention leaves holes behind a held event. What can't be seen yet is passed over as by the windows.
func (r *postgresReader) nextNumber(ctx context.Context, parts any, after, high int64) (before int64, err error) {
	query := "SELECT COALESCE(MIN(m.seq) - 1, ?::bigint) FROM unnest(?::int[]) AS o (part) CROSS JOIN LATERAL (SELECT MIN(e.seq) AS seq FROM " + r.events +
		" e WHERE e.part = o.part AND e.seq > ?::bigint AND e.seq <= ?::bigint) m"
	if err := r.store.query(ctx, r.db, query, []any{high, parts, after, high}, func(rows *sql.Rows) error { return rows.Scan(&before) }); err != nil {
		return 0, fmt.Errorf("looking for the next event: %w", err)
	}
	return before, nil
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
func (r *postgresReader) settled(p page, s settlement) bool {
	r.move(p, s, s.stamp)
	if p.full && p.walk == nil {
		r.turn = p.items[len(p.items)-1].Part + 1 // the others have their turn
	}
	return r.walked(p, s)
}
