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
	p := page{covered: make(map[int]int64, len(leases)), horizon: math.MaxInt64}
	return p, r.readBySeq(ctx, r.minLow(leases), math.MaxInt64, leases, limit, &p)
}

// settled implements reader.
func (r *sqliteReader) settled(p page, s settlement) {
	r.move(p, s, 1)
	// Nothing can be in flight below what was read, so the new mark needs no later read.
	p.horizon = math.MaxInt64
	r.move(p, s, 0)
}

// readBySeq reads the leased partitions together in the order of their numbers, above from and up to to.
func (s *store) readBySeq(ctx context.Context, from, to int64, leases []lease, limit int, p *page) error {
	in, args := s.partsIn("e.part", leases)
	query := "SELECT " + s.columns() + " FROM " + s.events + " e" + s.bySeq + " WHERE e.seq > ? AND e.seq <= ? AND " + in + " AND " + s.pending() +
		" ORDER BY e.seq LIMIT ?"
	args = append([]any{from, to}, args...)
	if err := s.scanItems(ctx, query, append(args, limit), &p.items); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	covered := to
	if p.full = len(p.items) >= limit; p.full {
		covered = p.items[len(p.items)-1].Seq
	}
	for _, l := range leases {
		p.covered[l.part] = covered
	}
	return nil
}
