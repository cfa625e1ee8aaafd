package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// mysqlReader reads all partitions by number. A number that can't be seen may still appear, because its transaction is
// open, or because the INSERT has drawn it and not yet written its row. So there is a survey before some of the reads: the numbers that are written
// at READ UNCOMMITTED, and then those that are committed. What is missing is watched, and the low marks pass it.
type mysqlReader struct {
	*store
	*marks
	gaps gaps
	now  func() time.Time
	// surveyed is when the last survey was, base the number above which it looked, and bound that up to which all is watched.
	surveyed    time.Time
	base, bound int64
}

const (
	// surveyRows is how many rows a survey looks at.
	surveyRows = 10_000
	// surveyEvery is the pause between two surveys if there is no backlog to walk over.
	surveyEvery = 250 * time.Millisecond
)

func newMySQLReader(s *store, window time.Duration) *mysqlReader {
	return &mysqlReader{store: s, marks: newMarks(), gaps: gaps{window: window, most: maxGaps}, now: time.Now}
}

// read implements reader.
func (r *mysqlReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	if behind := r.onward(leases); behind != nil {
		return r.next(ctx, leases, *behind, limit)
	}
	from, to := r.minFrom(leases), int64(math.MaxInt64)
	p := page{covered: make(map[int]int64, len(leases)), horizon: math.MaxInt64}
	if r.full || from < r.base || r.now().Sub(r.surveyed) >= surveyEvery {
		s, err := r.survey(ctx, leases, from)
		if err != nil {
			return page{}, fmt.Errorf("looking for events in flight: %w", err)
		}
		r.gaps.update(s, r.now())
		r.surveyed, r.base, r.bound = r.now(), from, s.to
		if high := s.belowInFlight(); r.full && high > from { // there is a backlog
			p.walk, to = &walk{leases: signature(leases), high: high, horizon: p.horizon}, high
		}
	}
	p.bounds = make(map[int]int64, len(leases))
	for _, l := range leases {
		p.bounds[l.part] = r.bound
	}
	if p.walk != nil {
		p.walk.bounds = p.bounds
	}
	if err := r.readWithGaps(ctx, from, to, leases, limit, &p); err != nil {
		return page{}, fmt.Errorf("reading events: %w", err)
	}
	return p, nil
}

// readWithGaps is readBySeq and looks for what has appeared in the gaps below, in one snapshot. A page of nothing but that
// is one by itself, if it may not have all of it.
func (r *mysqlReader) readWithGaps(ctx context.Context, from, to int64, leases []lease, limit int, p *page) error {
	watched := r.gaps.below(from)
	if len(watched) == 0 {
		return r.readBySeq(ctx, from, to, leases, limit, p)
	}
	in, args := r.partsIn("e.part", leases)
	rest := " AND " + in + " AND " + r.pending() + " ORDER BY e.seq LIMIT ?)"
	read := "(SELECT ? AS late, " + r.columns() + " FROM " + r.events + " e" + r.bySeq + " WHERE "
	query := read + rangesIn(watched) + rest + " UNION ALL " + read + "e.seq > ? AND e.seq <= ?" + rest
	all := append(append([]any{1}, args...), limit, 0, from, to)
	all = append(append(all, args...), limit)

	var late []item
	budget := r.budget()
	err := r.store.query(ctx, r.db, query, all, func(rows *sql.Rows) error {
		var isLate bool
		var row nullItem
		if err := rows.Scan(append([]any{&isLate}, row.targets()...)...); err != nil {
			return err
		}
		if isLate {
			late = append(late, row.item())
			return nil // they come first, and all of them must
		}
		p.items = append(p.items, row.item())
		return budget.take(&p.items[len(p.items)-1])
	})
	cut := budget.cut(&err)
	if err != nil {
		return err
	}
	if len(late) >= limit {
		p.items, p.full, p.walk = late, true, nil
		for _, l := range leases {
			p.covered[l.part] = late[len(late)-1].Seq
		}
		return nil
	}
	p.coverAll(leases, to, limit, cut)
	p.items = append(late, p.items...)
	return nil
}

// next implements reader.
func (r *mysqlReader) next(ctx context.Context, leases []lease, behind page, limit int) (page, error) {
	p := behind.follow()
	return p, r.readBySeq(ctx, behind.rest[0].seq, p.walk.high, leases, limit, &p)
}

// settled implements reader.
func (r *mysqlReader) settled(p page, s settlement) bool {
	r.moveAtOnce(p, s)
	return r.walked(p, s)
}

// low implements reader: the next owner knows of no gaps.
func (r *mysqlReader) low(l lease) int64 {
	low := r.marks.low(l)
	return min(low, r.gaps.first(low+1)-1)
}

// survey looks at the numbers above from and at the gaps.
func (r *mysqlReader) survey(ctx context.Context, leases []lease, from int64) (s survey, err error) {
	s = survey{from: from, to: from, pending: map[int64]bool{}}
	above := "(SELECT e.seq, 0 FROM " + r.events + " e" + r.bySeq + " WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?)"
	inGaps := func(kind string) string {
		if len(r.gaps.ranges) == 0 {
			return ""
		}
		return " UNION ALL (SELECT e.seq, " + kind + " FROM " + r.events + " e" + r.bySeq + " WHERE " + rangesIn(r.gaps.ranges) + ")"
	}
	list := func(tx *sql.Tx, query string, args []any, found func(seq int64, kind int)) error {
		return r.store.query(ctx, tx, query, args, func(rows *sql.Rows) error {
			var seq int64
			var kind int
			err := rows.Scan(&seq, &kind)
			found(seq, kind)
			return err
		})
	}
	err = r.dirty(ctx, func(tx *sql.Tx) error {
		return list(tx, above+inGaps("1"), []any{from, int64(math.MaxInt64), surveyRows}, func(seq int64, kind int) {
			s.written = append(s.written, seq)
			if kind == 0 {
				s.to = max(s.to, seq)
			}
		})
	})
	if err != nil {
		return s, err
	}
	in, args := r.partsIn("e.part", leases)
	query := above + inGaps("CASE WHEN "+in+" AND "+r.pending()+" THEN 2 ELSE 1 END")
	all := []any{from, s.to, surveyRows}
	if len(r.gaps.ranges) > 0 {
		all = append(all, args...)
	}
	rows, last := 0, from
	err = r.transaction(ctx, func(tx *sql.Tx) error {
		return list(tx, query, all, func(seq int64, kind int) {
			s.committed = append(s.committed, seq)
			switch kind {
			case 0:
				rows, last = rows+1, max(last, seq)
			case 2:
				s.pending[seq] = true
			}
		})
	})
	if rows >= surveyRows { // what came in between may have left no room for the last ones
		s.to = last
	}
	slices.Sort(s.written)
	slices.Sort(s.committed)
	return s, err
}

// rangesIn is the condition that the number is in one of the gaps.
func rangesIn(watched []gap) string {
	var singles []int64
	var b strings.Builder
	for _, g := range watched {
		if g.low == g.high {
			singles = append(singles, g.low)
			continue
		}
		fmt.Fprintf(&b, " OR e.seq BETWEEN %d AND %d", g.low, g.high)
	}
	if len(singles) > 0 {
		b.WriteString(" OR e.seq IN (")
		for i, seq := range singles {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, seq)
		}
		b.WriteByte(')')
	}
	return "(" + strings.TrimPrefix(b.String(), " OR ") + ")"
}

// dirty runs fn in a transaction that sees what others have not committed.
func (r *mysqlReader) dirty(ctx context.Context, fn func(*sql.Tx) error) (err error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted})
	if err != nil {
		return err
	}
	defer func() {
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
	}()
	return fn(tx)
}
