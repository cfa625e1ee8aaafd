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

const (
	// surveyRows is how many rows a survey lists, and how many numbers it counts at first.
	surveyRows = 10_000
	// maxReach is how many numbers it counts at most: a walk over what is behind held events goes far.
	maxReach = 16 * surveyRows
	// surveyEvery is the pause between two surveys if there is no backlog to walk over.
	surveyEvery = 250 * time.Millisecond
)

// survey looks at the numbers above from and at the gaps.
func (r *mysqlReader) survey(ctx context.Context, leases []lease, from int64) (s survey, err error) {
	s = survey{from: from, to: from, pending: map[int64]bool{}}
	if err := r.count(ctx, &s); err != nil || s.whole && len(r.gaps.ranges) == 0 {
		return s, err
	}
	return s, r.list(ctx, leases, &s)
}

// count looks whether each number has a committed row, so that nothing can appear among them: it need not list them then.
func (r *mysqlReader) count(ctx context.Context, s *survey) error {
	query := "SELECT COUNT(*), COALESCE(MAX(e.seq), 0), " + isolation + " FROM " + r.events + " e" + r.bySeq + " WHERE e.seq > ? AND e.seq <= ?"
	var rows, last int64
	var level string
	err := r.store.query(ctx, r.db, query, []any{s.from, s.from + r.reach}, func(r *sql.Rows) error { return r.Scan(&rows, &last, &level) })
	switch {
	case err != nil:
		return err
	case readUncommitted(level):
		return ErrReadUncommitted // before a page is read; the server may have been changed since Run began
	case rows == 0 || rows < last-s.from:
		r.reach = surveyRows
		return nil
	}
	s.whole, s.to, s.more = true, last, rows == r.reach
	r.reach = min(2*r.reach, maxReach, max(surveyRows, walkPages*r.width))
	return nil
}

// isolation is the session's level. MySQL and MariaDB call the variable differently, and each skips the comment of the other.
const isolation = "CONCAT('' /*!80003 , @@transaction_isolation */ /*M!50100 , @@tx_isolation */)"

func readUncommitted(level string) bool { return strings.EqualFold(level, "READ-UNCOMMITTED") }

// checkIsolation looks at the level of one session of the pool. The other databases show nothing that is not committed.
func (s *store) checkIsolation(ctx context.Context) error {
	if s.dialect.Name() != "mysql" {
		return nil
	}
	var level string
	if err := s.query(ctx, s.db, "SELECT "+isolation, nil, func(r *sql.Rows) error { return r.Scan(&level) }); err != nil {
		return fmt.Errorf("asking for the isolation level: %w", err)
	}
	if readUncommitted(level) {
		return ErrReadUncommitted
	}
	return nil
}

// list looks at the numbers above, unless they were counted, and at the gaps: first at what is written at READ UNCOMMITTED, and then at what is committed.
func (r *mysqlReader) list(ctx context.Context, leases []lease, s *survey) error {
	in, args := r.partsIn("e.part", leases)
	above := "(SELECT e.seq, 0 FROM " + r.events + " e" + r.bySeq + " WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?)"
	inGaps := func(kind string) string {
		return "(SELECT e.seq, " + kind + " FROM " + r.events + " e" + r.bySeq + r.besideHeld() + " WHERE " + rangesIn(r.gaps.ranges) + ")"
	}
	look := func(tx *sql.Tx, to int64, kind string, args []any, found func(seq int64, kind int)) error {
		var queries []string
		var all []any
		if !s.whole {
			queries, all = append(queries, above), []any{s.from, to, surveyRows}
		}
		if len(r.gaps.ranges) > 0 {
			queries, all = append(queries, inGaps(kind)), append(all, args...)
		}
		return r.store.query(ctx, tx, strings.Join(queries, " UNION ALL "), all, func(rows *sql.Rows) error {
			var seq int64
			var kind int
			err := rows.Scan(&seq, &kind)
			found(seq, kind)
			return err
		})
	}
	err := r.dirty(ctx, func(tx *sql.Tx) error {
		return look(tx, math.MaxInt64, "1", nil, func(seq int64, kind int) {
			s.written = append(s.written, seq)
			if kind == 0 {
				s.to = max(s.to, seq)
			}
		})
	})
	if err != nil {
		return err
	}
	rows, last := 0, s.from
	err = r.transaction(ctx, func(tx *sql.Tx) error {
		return look(tx, s.to, "CASE WHEN "+in+" AND "+r.pending()+" THEN 2 ELSE 1 END", args, func(seq int64, kind int) {
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
		s.to, s.more = last, true
	}
	slices.Sort(s.written)
	slices.Sort(s.committed)
	return err
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
