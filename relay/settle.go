package relay

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gormoutbox/outbox/internal/dialect"
)

var _ settler = (*store)(nil)

// maxError is how many bytes of an error are kept with the event.
const maxError = 2000

// settle implements settler. Published events take one statement; anything else a
// transaction that first locks the partitions' rows, so that a relay which has
// lost its lease records nothing about keys that others have gone on with.
func (s *store) settle(ctx context.Context, leases []lease, decisions []decision) (settlement, error) {
	out := settlement{done: make(map[int64]bool, len(decisions)), held: map[laneKey]int64{}, released: map[int]int64{}}
	simple := true
	items := make([]*item, len(decisions))
	for i, d := range decisions {
		simple = simple && d.verdict == published && !d.item.head
		items[i] = d.item
	}
	var err error
	if simple {
		err = s.settleSimple(ctx, leases, decisions, items, &out)
	} else {
		err = s.settleAll(ctx, leases, decisions, &out)
	}
	if err != nil {
		return settlement{}, fmt.Errorf("settling: %w", err)
	}
	return out, nil
}

// settleSimple settles published events of aggregates that are not held, if all their partitions are ours.
func (s *store) settleSimple(ctx context.Context, leases []lease, decisions []decision, items []*item, out *settlement) error {
	var n int64
	var err error
	if s.dialect.Name() == "mysql" { // at the default isolation an UPDATE locks gaps, and writers would run into them
		err = s.transaction(ctx, func(tx *sql.Tx) (err error) {
			n, err = s.settlePublished(ctx, tx, leases, items, out)
			return err
		})
	} else {
		n, err = s.settlePublished(ctx, s.db, leases, items, out)
	}
	if err != nil || n == int64(len(items)) {
		return err
	}
	// A lease is lost, or somebody has deleted a row or marked it processed.
	clear(out.done)
	return s.settleAll(ctx, leases, decisions, out)
}

func (s *settlement) lose(part int) {
	if !slices.Contains(s.lost, part) {
		s.lost = append(s.lost, part)
	}
}

// settlePublished marks events as published, if their partition is still ours, and says how many.
func (s *store) settlePublished(ctx context.Context, q execer, leases []lease, items []*item, out *settlement) (n int64, err error) {
	if len(items) == 0 && s.dialect.Name() != "postgres" {
		return 0, nil // there the stamp is needed
	}
	seqs, parts := make([]int64, len(items)), make([]int64, len(items))
	for i, it := range items {
		seqs[i], parts[i] = it.Seq, int64(it.Part)
		out.done[it.Seq] = true
	}
	// The leases are looked at once, not for each event.
	distinct := slices.Compact(slices.Sorted(slices.Values(parts)))
	ours := func(partIn string) string {
		return " AND (SELECT COUNT(*) FROM " + s.partitions + " p WHERE " + partIn + " AND " + tokensIn("p.token", leases) + ") = " + strconv.Itoa(len(distinct))
	}
	if s.dialect.Name() != "postgres" {
		in, args := s.dialect.IntsIn("seq", seqs)
		partIn, partArgs := s.dialect.IntsIn("p.part", distinct)
		where := " WHERE " + in + ours(partIn)
		args = append(args, partArgs...)
		if s.remove {
			return s.exec(ctx, q, "DELETE FROM "+s.events+where, args...)
		}
		return s.exec(ctx, q, "UPDATE "+s.events+s.bySeq+" SET "+s.setProcessed()+where, args...)
	}
	// The transaction's id is the stamp of the low marks, see postgresReader.
	write, from := "UPDATE "+s.events+" e SET "+s.setProcessed(), " FROM "
	if s.remove {
		write, from = "DELETE FROM "+s.events+" e", " USING "
	}
	query := "WITH u AS (" + write + from + "unnest(?::int[], ?::bigint[]) AS k (part, seq) WHERE e.part = k.part AND e.seq = k.seq" +
		ours("p.part = ANY (?::int[])") + " RETURNING 1) SELECT COUNT(*), pg_current_xact_id()::text::bigint FROM u"
	args := []any{dialect.IntArray(parts), dialect.IntArray(seqs), dialect.IntArray(distinct)}
	err = s.query(ctx, q, query, args, func(rows *sql.Rows) error {
		return rows.Scan(&n, &out.stamp)
	})
	return n, err
}

// setProcessed are the assignments of an event that is published or skipped.
func (s *store) setProcessed() string {
	return "processed_at = " + s.dialect.Now() + ", available_at = NULL, parked_at = NULL"
}

// settleAll records a mixture of outcomes in one transaction.
func (s *store) settleAll(ctx context.Context, leases []lease, decisions []decision, out *settlement) error {
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	return s.transaction(ctx, func(tx *sql.Tx) error {
		ours, err := s.lockPartitions(ctx, tx, leases)
		if err != nil {
			return err
		}
		var done []*item
		for _, d := range decisions {
			if !ours[d.item.Part] {
				out.lose(d.item.Part)
				continue
			}
			switch d.verdict {
			case published:
				done = append(done, d.item)
				if d.item.head {
					err = s.releaseKey(ctx, tx, d.item, out)
				}
			case skip:
				done = append(done, d.item)
				err = s.recordSkip(ctx, tx, d.item, out)
			case release:
				err = s.releaseKey(ctx, tx, d.item, out)
			default:
				err = s.recordFailure(ctx, tx, d, out)
			}
			if err != nil {
				return err
			}
		}
		_, err = s.settlePublished(ctx, tx, leases, done, out)
		return err
	})
}

// lockPartitions locks the rows of our partitions and says which are still ours.
func (s *store) lockPartitions(ctx context.Context, tx *sql.Tx, leases []lease) (map[int]bool, error) {
	if s.dialect.Name() == "sqlite" {
		// A write first: a transaction that has read can't become a writer behind another one.
		in, args := s.partsIn("part", leases)
		if _, err := s.exec(ctx, tx, "UPDATE "+s.partitions+" SET low = low WHERE "+in, args...); err != nil {
			return nil, err
		}
	}
	return s.ours(ctx, tx, leases, s.dialect.ForUpdate())
}

// ours says which of the leases are still in the table.
func (s *store) ours(ctx context.Context, q execer, leases []lease, lock string) (map[int]bool, error) {
	ours := make(map[int]bool, len(leases))
	in, args := s.partsIn("part", leases)
	query := "SELECT part FROM " + s.partitions + s.byPart + " WHERE " + in + " AND " + tokensIn("token", leases) + " ORDER BY part" + lock
	err := s.query(ctx, q, query, args, func(rows *sql.Rows) error {
		var part int
		err := rows.Scan(&part)
		ours[part] = true
		return err
	})
	return ours, err
}

// recordFailure charges an attempt and says what the event, or its aggregate, waits for.
func (s *store) recordFailure(ctx context.Context, tx *sql.Tx, d decision, out *settlement) error {
	it := d.item
	// Not "attempts + 1": a settlement whose commit is not known to have happened is repeated.
	attempts := it.Attempts + 1
	if d.verdict == setAside {
		attempts = it.Attempts
	}
	set := "attempts = ?, last_error = ?"
	alone := it.AggregateType == ""
	switch {
	case d.verdict == park:
		set += ", parked_at = " + s.dialect.Now()
	case alone:
		// Nothing waits behind it, so the delay of the event is enough.
		set += ", parked_at = NULL, available_at = " + s.dialect.NowPlus(d.after)
	default:
		set += ", parked_at = NULL"
	}
	if _, err := s.exec(ctx, tx, "UPDATE "+s.events+" SET "+set+" WHERE part = ? AND seq = ?", attempts, d.err, it.Part, it.Seq); err != nil {
		return err
	}
	out.done[it.Seq] = true
	switch {
	case alone:
		return nil
	case d.verdict == park && d.policy == ParkEvent:
		if it.head {
			return s.releaseKey(ctx, tx, it, out)
		}
		return nil
	case d.verdict == park:
		return s.hold(ctx, tx, it, "NULL", "parked: "+d.err, out)
	default:
		return s.hold(ctx, tx, it, s.dialect.NowPlus(d.after), "retry: "+d.err, out)
	}
}

// hold makes the aggregate wait. Events behind are not read any more and count as dealt with:
// when the key is released, reading begins at the held event again.
func (s *store) hold(ctx context.Context, tx *sql.Tx, it *item, until, reason string, out *settlement) error {
	out.held[it.key()] = it.Seq
	if !it.head {
		// It may stand before the head that the aggregate waited for, which then is no longer parked but behind.
		_, err := s.exec(ctx, tx, "UPDATE "+s.events+" SET parked_at = NULL WHERE part = ? AND seq = (SELECT seq FROM "+s.held+
			" WHERE aggregate_type = ? AND aggregate_id = ? AND seq > ?)", it.Part, it.AggregateType, it.AggregateID, it.Seq)
		if err != nil {
			return err
		}
	}
	// A request that came while the event was tried is still to be carried out.
	n, err := s.exec(ctx, tx, "UPDATE "+s.held+" SET until = "+until+", reason = ?, request = CASE WHEN request = ? THEN '' ELSE request END, seq = ? "+
		"WHERE aggregate_type = ? AND aggregate_id = ?", reason, it.request, it.Seq, it.AggregateType, it.AggregateID)
	if err != nil || n > 0 {
		return err
	}
	// MySQL counts changed rows only, so the row may be there.
	_, err = s.exec(ctx, tx, "INSERT INTO "+s.held+" (aggregate_type, aggregate_id, part, seq, until, reason) SELECT ?, ?, ?, ?, "+until+
		", ? FROM (SELECT 1 AS one) o WHERE NOT EXISTS (SELECT 1 FROM "+s.held+" WHERE aggregate_type = ? AND aggregate_id = ?)",
		it.AggregateType, it.AggregateID, it.Part, it.Seq, reason, it.AggregateType, it.AggregateID)
	return err
}

// recordSkip says on the event why it is processed although it was not published.
func (s *store) recordSkip(ctx context.Context, tx *sql.Tx, it *item, out *settlement) error {
	if _, err := s.exec(ctx, tx, "UPDATE "+s.events+" SET last_error = 'skipped on request' WHERE part = ? AND seq = ?", it.Part, it.Seq); err != nil {
		return err
	}
	return s.releaseKey(ctx, tx, it, out)
}

// releaseKey lets the aggregate go on behind its head. The saved low mark falls back
// to it in the same transaction, so that nothing behind is passed over.
func (s *store) releaseKey(ctx context.Context, tx *sql.Tx, it *item, out *settlement) error {
	if _, err := s.exec(ctx, tx, "UPDATE "+s.partitions+" SET low = ? WHERE part = ? AND low > ?", it.Seq-1, it.Part, it.Seq-1); err != nil {
		return err
	}
	if _, err := s.exec(ctx, tx, "DELETE FROM "+s.held+" WHERE aggregate_type = ? AND aggregate_id = ?", it.AggregateType, it.AggregateID); err != nil {
		return err
	}
	if at, ok := out.released[it.Part]; !ok || it.Seq < at {
		out.released[it.Part] = it.Seq
	}
	return nil
}

// errorText is what is kept of an error.
func errorText(err error) string {
	s := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "\uFFFD")
	if len(s) <= maxError {
		return s
	}
	s = s[:maxError]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
