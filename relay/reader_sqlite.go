package relay

import (
	"context"
	"fmt"
	"math"
)

// sqliteReader reads all partitions by number. SQLite has one writer at a time, so
// numbers become visible in their order and the low mark moves at once.
type sqliteReader struct {
	*store
	*marks
}

func newSQLiteReader(s *store) *sqliteReader { return &sqliteReader{store: s, marks: newMarks()} }

// read implements reader.
func (r *sqliteReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	if behind := r.onward(leases); behind != nil {
		return r.next(ctx, leases, *behind, limit)
	}
	p := page{covered: make(map[int]int64, len(leases)), horizon: math.MaxInt64}
	if r.full { // there is a backlog; it may be walked over without an end, since nothing becomes visible below
		p.walk = &walk{leases: signature(leases), high: math.MaxInt64, horizon: p.horizon}
	}
	return p, r.readBySeq(ctx, r.minFrom(leases), math.MaxInt64, leases, limit, &p)
}

// next implements reader.
func (r *sqliteReader) next(ctx context.Context, leases []lease, behind page, limit int) (page, error) {
	p := behind.follow()
	return p, r.readBySeq(ctx, behind.rest[0].seq, p.walk.high, leases, limit, &p)
}

// settled implements reader.
func (r *sqliteReader) settled(p page, s settlement) bool {
	r.moveAtOnce(p, s) // nothing can be in flight below what was read
	return r.walked(p, s)
}

// readBySeq reads the leased partitions together in the order of their numbers, above from and up to to.
func (s *store) readBySeq(ctx context.Context, from, to int64, leases []lease, limit int, p *page) error {
	in, args := s.partsIn("e.part", leases)
	query := "SELECT " + s.columns() + " FROM " + s.events + " e" + s.bySeq + s.besideHeld() + " WHERE e.seq > ? AND e.seq <= ? AND " + in + " AND " + s.pending() +
		" ORDER BY e.seq LIMIT ?"
	args = append([]any{from, to}, args...)
	cut, err := s.scanItems(ctx, query, append(args, limit), &p.items)
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	p.coverAll(leases, to, limit, cut)
	return nil
}
