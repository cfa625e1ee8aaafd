package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"
)

// mysqlReader reads all partitions by number. Which transactions are in flight
// is seen at READ UNCOMMITTED: a row that is there and not at READ COMMITTED is
// the row of an open transaction, and the low mark stays below it. A number that is
// drawn and whose row is not yet written is seen by nobody; it is given the settle window to appear.
type mysqlReader struct {
	*store
	*marks
	window time.Duration
	now    func() time.Time
	start  time.Time
	looked int64 // when, as a stamp
}

// maxInFlight bounds the rows that one look at READ UNCOMMITTED takes.
const maxInFlight = 10_000

// lookEvery is the pause between two such looks.
const lookEvery = 500 * time.Millisecond

func newMySQLReader(s *store, window time.Duration) *mysqlReader {
	return &mysqlReader{store: s, marks: newMarks(), window: window, now: time.Now, start: time.Now()}
}

// stamp is the time since the start in microseconds, never 0.
func (r *mysqlReader) stamp() int64 { return r.now().Sub(r.start).Microseconds() + 1 }

// read implements reader.
func (r *mysqlReader) read(ctx context.Context, leases []lease, limit int) (page, error) {
	r.keep(leases)
	p := page{covered: make(map[int]int64, len(leases))}
	if w := r.onward(leases); w != nil {
		p.walk, p.horizon, p.bounds = w, w.horizon, w.bounds
		return p, r.readBySeq(ctx, w.cursor, w.high, leases, limit, &p)
	}
	p.horizon = r.stamp() - r.window.Microseconds()
	// The look comes before the read: what commits in between is found by the read.
	bound, err := r.look(ctx, leases, p.horizon)
	if err != nil {
		return page{}, fmt.Errorf("looking for transactions in flight: %w", err)
	}
	if bound >= 0 {
		p.bounds = make(map[int]int64, len(leases))
		for _, l := range leases {
			p.bounds[l.part] = bound
		}
	} else {
		p.horizon = math.MinInt64 // not looked at, nothing advances
	}
	if r.full { // there is a backlog
		high, err := r.highest(ctx)
		if err != nil {
			return page{}, err
		}
		p.walk = &walk{leases: signature(leases), high: high, horizon: p.horizon, bounds: p.bounds}
	}
	return p, r.readBySeq(ctx, r.minLow(leases), math.MaxInt64, leases, limit, &p)
}

// settled implements reader.
func (r *mysqlReader) settled(p page, s settlement) {
	r.move(p, s, r.stamp())
	r.walked(p, s)
}

// look returns the number up to which nothing is in flight, at most the highest
// mark that is old enough, and -1 if there is none or the last look was a moment ago.
func (r *mysqlReader) look(ctx context.Context, leases []lease, horizon int64) (int64, error) {
	if now := r.stamp(); now-r.looked < lookEvery.Microseconds() {
		return -1, nil
	}
	ready, low := int64(-1), int64(math.MaxInt64)
	for _, l := range leases {
		p := r.parts[l.part]
		for _, w := range p.waiting {
			if w.stamp <= horizon {
				ready = max(ready, w.seq)
				low = min(low, p.low)
			}
		}
	}
	if ready < 0 {
		return -1, nil
	}
	r.looked = r.stamp()
	seen, err := r.uncommitted(ctx, low, ready)
	if err != nil || len(seen) == 0 {
		return ready, err
	}
	if len(seen) == maxInFlight {
		ready = seen[len(seen)-1]
	}
	committed := make(map[int64]bool, len(seen))
	in, args := r.dialect.IntsIn("e.seq", seen)
	err = r.transaction(ctx, func(tx *sql.Tx) error {
		return r.store.query(ctx, tx, "SELECT e.seq FROM "+r.events+" e WHERE "+in, args, func(rows *sql.Rows) error {
			var seq int64
			err := rows.Scan(&seq)
			committed[seq] = true
			return err
		})
	})
	if err != nil {
		return -1, err
	}
	for _, seq := range seen {
		if !committed[seq] {
			return seq - 1, nil
		}
	}
	return ready, nil
}

// uncommitted lists the unpublished rows of all transactions, in order.
func (r *mysqlReader) uncommitted(ctx context.Context, low, high int64) (seen []int64, err error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
	}()
	query := "SELECT e.seq FROM " + r.events + " e" + r.bySeq + " WHERE e.seq > ? AND e.seq <= ? AND e.processed_at IS NULL ORDER BY e.seq LIMIT ?"
	err = r.store.query(ctx, tx, query, []any{low, high, maxInFlight}, func(rows *sql.Rows) error {
		var seq int64
		err := rows.Scan(&seq)
		seen = append(seen, seq)
		return err
	})
	return seen, err
}
