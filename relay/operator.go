package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
)

// ErrNotHeld is returned by Redrive and Skip if the aggregate does not wait.
var ErrNotHeld = errors.New("relay: the aggregate is not held, so there is nothing to redrive or to skip")

// Operator looks into an outbox and asks its relays for what people decide: to try again, to skip, to publish again. It
// works from any process that reaches the database, beside running relays or without any; what it asks for stands in the tables until the
// relay that owns the partition carries it out, in the order of the aggregate. It is safe for concurrent use.
type Operator struct {
	store  *store
	tables gormoutbox.Tables
}

// NewOperator returns an operator for the outbox in db whose events table is named, "" for that of the
// plugin registered on db, else gormoutbox.DefaultTable. It makes no connection. Mistakes are *ConfigError.
func NewOperator(db *gorm.DB, table string) (*Operator, error) {
	d, err := dialect.For(db)
	if err != nil {
		return nil, &ConfigError{"db", err.Error(), "pass an open *gorm.DB of a supported database"}
	}
	plugin, err := pluginFor(db, table)
	if err != nil {
		return nil, &ConfigError{"table", err.Error(), "say which table"}
	}
	if table == "" && plugin != nil {
		table = plugin.Tables().Events
	}
	tables := gormoutbox.TablesFor(table)
	if err := gormoutbox.ValidateTable(tables.Events); err != nil {
		return nil, &ConfigError{"table", err.Error(), "see gormoutbox.Config.Table"}
	}
	pool, err := db.DB()
	if err != nil {
		return nil, &ConfigError{"db", err.Error(), "pass an open *gorm.DB"}
	}
	return &Operator{store: newStore(pool, d, tables), tables: tables}, nil
}

// Redrive lets a held aggregate try again at once, with all of its attempts: the head first, and if that is
// published all that stands behind it, in order. It returns ErrNotHeld if the aggregate does not wait.
func (o *Operator) Redrive(ctx context.Context, aggregateType, aggregateID string) error {
	n, err := o.request(ctx, requestRedrive, "aggregate_type = ? AND aggregate_id = ?", aggregateType, aggregateID)
	if err == nil && n == 0 {
		return ErrNotHeld
	}
	return err
}

// RedriveParked does it for all parked aggregates and says how many there are.
func (o *Operator) RedriveParked(ctx context.Context) (int64, error) {
	return o.request(ctx, requestRedrive, "until IS NULL")
}

// Skip gives up the event that a held aggregate waits for: it counts as processed, with a note in last_error, and
// those behind it are published. It returns ErrNotHeld if the aggregate does not wait.
func (o *Operator) Skip(ctx context.Context, aggregateType, aggregateID string) error {
	n, err := o.request(ctx, requestSkip, "aggregate_type = ? AND aggregate_id = ?", aggregateType, aggregateID)
	if err == nil && n == 0 {
		return ErrNotHeld
	}
	return err
}

// request writes a request into the rows of held aggregates.
func (o *Operator) request(ctx context.Context, what, where string, args ...any) (n int64, err error) {
	s := o.store
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		// The request is set to another value first: MySQL does not count a row that had it already.
		if _, err := s.exec(ctx, tx, "UPDATE "+s.held+" SET request = '' WHERE "+where, args...); err != nil {
			return err
		}
		n, err = s.exec(ctx, tx, "UPDATE "+s.held+" SET request = '"+what+"' WHERE "+where, args...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("relay: asking to %s: %w", what, err)
	}
	return n, nil
}

// RedriveEvents tries events again that were parked alone, because they have no aggregate or by ParkEvent. Those of
// an aggregate come out of its order, as they did when they were parked. It says how many of the ids were parked so.
func (o *Operator) RedriveEvents(ctx context.Context, ids ...uuid.UUID) (n int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	s := o.store
	in, args := idsIn(ids)
	n, err = s.exec(ctx, s.db, "UPDATE "+s.events+" SET attempts = 0, parked_at = NULL, available_at = "+s.dialect.Now()+
		" WHERE "+in+" AND processed_at IS NULL AND parked_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "+s.held+
		" h WHERE h.part = "+s.events+".part AND h.seq = "+s.events+".seq)", args...)
	if err != nil {
		return 0, fmt.Errorf("relay: redriving events: %w", err)
	}
	return n, nil
}

func idsIn(ids []uuid.UUID) (string, []any) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id.String()
	}
	return "id IN (?" + strings.Repeat(",?", len(ids)-1) + ")", args
}

// ReplayFilter says which published events are published again. What is left zero does not restrict; at least one is to be set.
type ReplayFilter struct {
	// From and To bound the time of the save by the database's clock: From ≤ time < To.
	From, To time.Time
	// AggregateType, and with it AggregateID, are those of the events.
	AggregateType, AggregateID string
	// EventType is that of the events.
	EventType string
	// IDs are the events themselves.
	IDs []uuid.UUID
}

// replayRows is how many rows one statement of a replay looks at.
const replayRows = 5000

// Replay publishes events again that are kept in the outbox, under their old ids and with the header
// gormoutbox.HeaderReplayed; a consumer under package dedup has seen them. Of one aggregate they are in their order among themselves, and come
// out of the order of what was published since. It says how many there are, and works in steps: after an error, or the
// end of ctx, a part of them is replayed.
func (o *Operator) Replay(ctx context.Context, f ReplayFilter) (n int64, err error) {
	where, args, err := o.filter(f)
	if err != nil {
		return 0, err
	}
	parts, err := o.parts(ctx, f)
	if err != nil {
		return 0, fmt.Errorf("relay: replaying: %w", err)
	}
	s := o.store
	// One time for all steps: due events are read by it first, and then in their order.
	var now int64
	err = s.query(ctx, s.db, "SELECT "+s.dialect.Micros(s.dialect.Now()), nil, func(rows *sql.Rows) error { return rows.Scan(&now) })
	if err != nil {
		return 0, fmt.Errorf("relay: replaying: %w", err)
	}
	headers := "CASE WHEN headers LIKE '{\"" + gormoutbox.HeaderReplayed + "\":\"true\"%' THEN headers WHEN REPLACE(headers, ' ', '') = '{}' THEN ? ELSE " +
		s.concat("?", "SUBSTR(headers, 2)") + " END"
	flag := `{"` + gormoutbox.HeaderReplayed + `":"true"`
	update := "UPDATE " + s.events + " SET headers = " + headers + ", processed_at = NULL, attempts = 0, last_error = NULL, available_at = " + s.dialect.FromMicros(now) +
		" WHERE part = ? AND seq > ? AND seq <= ? AND processed_at IS NOT NULL" + where
	for _, part := range parts {
		for after := int64(0); ; {
			last, err := s.stepEnd(ctx, part, after)
			if err != nil {
				return n, fmt.Errorf("relay: replaying: %w", err)
			}
			if last == 0 {
				break
			}
			step, err := s.exec(ctx, s.db, update, append([]any{flag + "}", flag + ",", part, after, last}, args...)...)
			n += step
			if err != nil {
				return n, fmt.Errorf("relay: replaying: %w", err)
			}
			after = last
		}
	}
	return n, nil
}

// stepEnd is the number at which the next step behind a number ends, 0 if there is nothing.
func (s *store) stepEnd(ctx context.Context, part int, after int64) (last int64, err error) {
	query := "SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq FROM " + s.events + " WHERE part = ? AND seq > ? ORDER BY seq LIMIT ?) step"
	err = s.query(ctx, s.db, query, []any{part, after, replayRows}, func(rows *sql.Rows) error { return rows.Scan(&last) })
	return last, err
}

// concat joins texts.
func (s *store) concat(a, b string) string {
	if s.dialect.Name() == "mysql" {
		return "CONCAT(" + a + ", " + b + ")"
	}
	return a + " || " + b
}

func (o *Operator) filter(f ReplayFilter) (where string, args []any, err error) {
	d := o.store.dialect
	add := func(condition string, more ...any) {
		where += " AND " + condition
		args = append(args, more...)
	}
	if !f.From.IsZero() {
		add("created_at >= " + d.FromMicros(f.From.UnixMicro()))
	}
	if !f.To.IsZero() {
		add("created_at < " + d.FromMicros(f.To.UnixMicro()))
	}
	if f.AggregateType != "" {
		add("aggregate_type = ?", f.AggregateType)
	}
	if f.AggregateID != "" {
		add("aggregate_id = ?", f.AggregateID)
	}
	if f.EventType != "" {
		add("event_type = ?", f.EventType)
	}
	if len(f.IDs) > 0 {
		in, ids := idsIn(f.IDs)
		add(in, ids...)
	}
	switch {
	case where == "":
		return "", nil, &ConfigError{"filter", "it is empty and would replay everything", "set From, for example"}
	case f.AggregateID != "" && f.AggregateType == "":
		return "", nil, &ConfigError{"AggregateID", "AggregateType is empty", "set both"}
	case !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To):
		return "", nil, &ConfigError{"To", "it is not after From", "exchange them"}
	case len(f.IDs) > maxReplayIDs:
		return "", nil, &ConfigError{"IDs", fmt.Sprintf("there are %d", len(f.IDs)), fmt.Sprintf("replay at most %d at once", maxReplayIDs)}
	}
	return where, args, nil
}

// maxReplayIDs keeps a statement below every database's limit of parameters.
const maxReplayIDs = 1000

// parts are the partitions in which the events may be.
func (o *Operator) parts(ctx context.Context, f ReplayFilter) (parts []int, err error) {
	err = o.store.query(ctx, o.store.db, "SELECT part FROM "+o.store.partitions+" ORDER BY part", nil, func(rows *sql.Rows) error {
		var part int
		err := rows.Scan(&part)
		parts = append(parts, part)
		return err
	})
	if err == nil && f.AggregateID != "" && len(parts) > 0 {
		return []int{parts[gormoutbox.Partition(f.AggregateType, f.AggregateID, len(parts))]}, nil
	}
	return parts, err
}
