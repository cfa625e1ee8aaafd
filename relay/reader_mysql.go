package relay

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"
)

// mysqlReader reads all partitions by number. A number that can't be seen may still appear, because its transaction is
// open, or because the INSERT has drawn it and not yet written its row. So there is a survey before some of the reads: unless each number has a committed row, of those that are written,
// at READ UNCOMMITTED, and then of those that are committed. What is missing is watched, and the low marks pass it.
type mysqlReader struct {
	*store
	*marks
	gaps gaps
	now  func() time.Time
	// surveyed is when the last survey was, base the number above which it looked, and bound that up to which all is watched.
	surveyed    time.Time
	base, bound int64
	// reach is how many numbers the next survey counts.
	reach int64
	// width is how many numbers the first page of the next walk looks at, as the last page did.
	width int64
}

func newMySQLReader(s *store, window time.Duration) *mysqlReader {
	return &mysqlReader{store: s, marks: newMarks(), gaps: gaps{window: window, most: maxGaps}, now: time.Now, reach: surveyRows}
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
		if high := s.belowInFlight(); (r.full || s.more) && high > from { // there is a backlog
			p.walk, to = &walk{leases: signature(leases), high: high, horizon: p.horizon, pages: walkPages, more: s.more && high == s.to}, high
		}
	}
	p.bounds = make(map[int]int64, len(leases))
	for _, l := range leases {
		p.bounds[l.part] = r.bound
	}
	if p.walk != nil {
		p.walk.bounds = p.bounds
		if len(r.gaps.below(from)) == 0 {
			return r.next(ctx, leases, page{walk: p.walk, nth: -1, rest: []place{{seq: from}}, width: r.width}, limit)
		}
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
	read := "(SELECT ? AS late, " + r.columns() + " FROM " + r.events + " e" + r.bySeq + r.besideHeld() + " WHERE "
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
	for {
		p := behind.follow()
		begin := behind.rest[0].seq
		if behind.width < sparse*int64(limit) {
			err := r.readBySeq(ctx, begin, p.walk.high, leases, limit, &p)
			if p.widthOf(begin); p.full {
				r.width = p.width
			}
			return p, err
		}
		to := min(r.gaps.endOf(begin+min(behind.width, p.walk.high-begin)), p.walk.high)
		cut, err := r.readWindow(ctx, begin, to, leases, limit, &p)
		if err != nil {
			return page{}, err
		}
		p.coverWindow(leases, begin, to, limit, cut, -1)
		if p.full {
			r.width = p.width
		}
		if len(p.items) > 0 || !p.goesOn() {
			return p, nil
		}
		if p.rest[0].seq, err = r.nextNumber(ctx, to, p.walk.high); err != nil {
			return page{}, err
		}
		behind.rest, behind.width = p.rest, p.width
	}
}

// nextNumber is the number before the first event above one, or high if there is none up to there: numbers may jump, and
// retention leaves holes behind a held event.
func (r *mysqlReader) nextNumber(ctx context.Context, after, high int64) (before int64, err error) {
	query := "SELECT COALESCE(MIN(e.seq) - 1, ?) FROM " + r.events + " e" + r.bySeq + " WHERE e.seq > ? AND e.seq <= ?"
	if err := r.store.query(ctx, r.db, query, []any{high, after, high}, func(rows *sql.Rows) error { return rows.Scan(&before) }); err != nil {
		return 0, fmt.Errorf("looking for the next event: %w", err)
	}
	return before, nil
}

// sparse is how many numbers there are at least for each event where windows are read.
const sparse = 4

// readWindow reads a window of numbers of which few are pending, the others being behind held ones, for example: partition by partition, where the rows of the
// table stand in order, and only then sorted. The rows themselves are fetched after that, since they may be large.
func (r *mysqlReader) readWindow(ctx context.Context, begin, to int64, leases []lease, limit int, p *page) (cut bool, err error) {
	in, args := r.partsIn("e.part", leases)
	query := "SELECT " + r.columns() + " FROM (SELECT e.part, e.seq FROM " + r.events + " e" + r.byPart + r.besideHeld() + " WHERE e.seq > ? AND e.seq <= ? AND " +
		in + " AND " + r.pending() + " ORDER BY e.seq LIMIT ?) w STRAIGHT_JOIN " + r.events + " e" + r.byPart + " ON e.part = w.part AND e.seq = w.seq ORDER BY w.seq"
	args = append([]any{begin, to}, args...)
	if cut, err = r.scanItems(ctx, query, append(args, limit), &p.items); err != nil {
		return cut, fmt.Errorf("reading events: %w", err)
	}
	return cut, nil
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
