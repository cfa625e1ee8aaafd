package relay

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Status is what stands in the tables of one outbox.
type Status struct {
	// Backlog is about how many events are not published: what is numbered above the low marks, which the relays save every
	// third of Config.Lease, so it is too high by what was published since. Held events are not in it.
	Backlog int64
	// OldestPending is when the oldest event was saved that is to be published now and is not held, zero if there is none.
	OldestPending time.Time
	// Now is the database's clock, to compare times with.
	Now time.Time
	// Waiting is how many aggregates wait for their next attempt, and Parked how many for somebody's decision.
	Waiting, Parked int
	// Relays are those that are alive, Partitions all partitions.
	Relays     []RelayStatus
	Partitions []PartitionStatus
}

// RelayStatus is a relay that is alive.
type RelayStatus struct {
	ID        string
	StartedAt time.Time
	// ExpiresAt is when it counts as dead without another sign of life.
	ExpiresAt time.Time
	// Partitions is how many it owns.
	Partitions int
}

// PartitionStatus is a partition with its lease.
type PartitionStatus struct {
	Part int
	// Owner is the relay's ID, empty if nobody has it.
	Owner string
	// ExpiresAt is when the lease ends, zero without an owner.
	ExpiresAt time.Time
	// Low is the saved low mark.
	Low int64
}

// HeldKey is an aggregate that waits.
type HeldKey struct {
	AggregateType, AggregateID string
	Part                       int
	// Seq is the number of the event that it waits for.
	Seq int64
	// Until is when that is tried again, zero if it is parked.
	Until time.Time
	// Reason is why, with the last error.
	Reason string
	// Since is when it began to wait.
	Since time.Time
	// Request is what the owner was asked for and has not done yet: "redrive", "skip" or nothing.
	Request string
}

// Status looks at the outbox. It takes a few statements, whose cost grows with the number of partitions, relays and held
// aggregates and not with the backlog.
func (o *Operator) Status(ctx context.Context) (Status, error) {
	var st Status
	for _, part := range []func(context.Context, *Status) error{o.partitions, o.relays, o.heldCounts, o.pending} {
		if err := part(ctx, &st); err != nil {
			return Status{}, fmt.Errorf("relay: reading the status: %w", err)
		}
	}
	return st, nil
}

func micros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}

func (o *Operator) partitions(ctx context.Context, st *Status) error {
	s := o.store
	query := "SELECT part, owner, " + s.dialect.Micros("expires_at") + ", low FROM " + s.partitions + " ORDER BY part"
	return s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error {
		var p PartitionStatus
		var expires sql.NullInt64
		err := rows.Scan(&p.Part, &p.Owner, &expires, &p.Low)
		p.ExpiresAt = micros(expires)
		st.Partitions = append(st.Partitions, p)
		return err
	})
}

func (o *Operator) relays(ctx context.Context, st *Status) error {
	s := o.store
	owned := map[string]int{}
	for _, p := range st.Partitions {
		owned[p.Owner]++
	}
	query := "SELECT id, " + s.dialect.Micros("started_at") + ", " + s.dialect.Micros("expires_at") + " FROM " + s.relays +
		" WHERE expires_at > " + s.dialect.Now() + " ORDER BY started_at, id"
	return s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error {
		var r RelayStatus
		var started, expires sql.NullInt64
		err := rows.Scan(&r.ID, &started, &expires)
		r.StartedAt, r.ExpiresAt, r.Partitions = micros(started), micros(expires), owned[r.ID]
		st.Relays = append(st.Relays, r)
		return err
	})
}

func (o *Operator) heldCounts(ctx context.Context, st *Status) error {
	s := o.store
	query := "SELECT COUNT(*), COUNT(until), " + s.dialect.Micros(s.dialect.Now()) + " FROM " + s.held
	return s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error {
		var all int
		var now sql.NullInt64
		err := rows.Scan(&all, &st.Waiting, &now)
		st.Parked, st.Now = all-st.Waiting, micros(now)
		return err
	})
}

// pending looks at the first pending and the last event of each partition.
func (o *Operator) pending(ctx context.Context, st *Status) error {
	s := o.store
	first := "(SELECT " + s.dialect.Micros("e.created_at") + " FROM " + s.events + " e" + s.besideHeld() + " WHERE e.part = p.part AND e.seq > p.low AND " + s.pending() + " ORDER BY e.seq LIMIT 1)"
	last := "(SELECT MAX(e.seq) FROM " + s.events + " e WHERE e.part = p.part)"
	query := "SELECT p.low, " + first + ", " + last + " FROM " + s.partitions + " p"
	highest, lows := int64(0), make([]int64, 0, len(st.Partitions))
	var oldest sql.NullInt64
	err := s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error {
		var low int64
		var created, seq sql.NullInt64
		if err := rows.Scan(&low, &created, &seq); err != nil {
			return err
		}
		highest = max(highest, seq.Int64)
		if created.Valid { // else nothing is pending in this partition
			lows = append(lows, low)
			if !oldest.Valid || created.Int64 < oldest.Int64 {
				oldest = created
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	st.OldestPending = micros(oldest)
	// Numbers are drawn by all partitions alike.
	for _, low := range lows {
		st.Backlog += highest - low
	}
	if n := int64(len(st.Partitions)); n > 0 {
		st.Backlog = (st.Backlog + n - 1) / n
	}
	return nil
}

// Held lists aggregates that wait, those that wait longest first, at most limit behind the first offset ones.
func (o *Operator) Held(ctx context.Context, offset, limit int) (held []HeldKey, err error) {
	s := o.store
	query := "SELECT aggregate_type, aggregate_id, part, seq, " + s.dialect.Micros("until") + ", reason, " + s.dialect.Micros("created_at") + ", request FROM " + s.held +
		" ORDER BY created_at, aggregate_type, aggregate_id LIMIT ? OFFSET ?"
	err = s.query(ctx, s.db, query, []any{limit, offset}, func(rows *sql.Rows) error {
		var h HeldKey
		var until, since sql.NullInt64
		err := rows.Scan(&h.AggregateType, &h.AggregateID, &h.Part, &h.Seq, &until, &h.Reason, &since, &h.Request)
		h.Until, h.Since = micros(until), micros(since)
		held = append(held, h)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("relay: listing held aggregates: %w", err)
	}
	return held, nil
}
