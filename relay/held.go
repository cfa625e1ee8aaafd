package relay

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

// What may be asked of the owner of a held aggregate, in its row.
const (
	requestRedrive = "redrive"
	requestSkip    = "skip"
)

// due returns the events that the ordinary read passes over: heads of held
// aggregates whose pause has ended, and delayed events whose time has come.
func (s *store) due(ctx context.Context, leases []lease, limit int) ([]item, error) {
	var heads, delayed []item
	in, args := s.partsIn("h.part", leases)
	query := "SELECT " + s.columns() + ", h.request FROM " + s.held + " h JOIN " + s.events + " e ON e.part = h.part AND e.seq = h.seq WHERE " + in +
		" AND (h.until <= " + s.now() + " OR h.request <> '') AND e.processed_at IS NULL ORDER BY e.seq LIMIT ?"
	err := s.query(ctx, s.db, query, append(args, limit), func(rows *sql.Rows) error {
		var n nullItem
		var request string
		if err := rows.Scan(append(n.targets(), &request)...); err != nil {
			return err
		}
		it := n.item()
		it.head, it.request = true, request
		if request == requestRedrive {
			it.Attempts = 0 // it has all of them again
		}
		heads = append(heads, it)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading due heads: %w", err)
	}
	part := "e.part"
	if s.dialect.Name() == "sqlite" {
		part = "+e.part" // or its planner goes through the partitions instead of the few delayed events
	}
	in, args = s.partsIn(part, leases)
	query = "SELECT " + s.columns() + " FROM " + s.events + " e" + s.besideHeld() + " WHERE e.available_at <= " + s.now() + " AND " + in +
		" AND e.processed_at IS NULL AND e.parked_at IS NULL AND " + s.notHeld() + " ORDER BY e.available_at, e.seq LIMIT " + strconv.Itoa(limit)
	if _, err := s.scanItems(ctx, query, args, &delayed); err != nil {
		return nil, fmt.Errorf("reading due delayed events: %w", err)
	}
	return append(heads, delayed...), nil
}

// orphans returns holds whose event is no longer pending, because somebody has
// marked it processed or deleted it: the way to skip an event by SQL.
func (s *store) orphans(ctx context.Context, leases []lease) (out []item, err error) {
	in, args := s.partsIn("h.part", leases)
	query := "SELECT h.aggregate_type, h.aggregate_id, h.part, h.seq FROM " + s.held + " h WHERE " + in + " AND NOT EXISTS (SELECT 1 FROM " + s.events +
		" e WHERE e.part = h.part AND e.seq = h.seq AND e.processed_at IS NULL)"
	err = s.query(ctx, s.db, query, args, func(rows *sql.Rows) error {
		it := item{head: true}
		err := rows.Scan(&it.AggregateType, &it.AggregateID, &it.Part, &it.Seq)
		out = append(out, it)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for holds without an event: %w", err)
	}
	return out, nil
}
