package gormoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// A statement has at most this many rows and bytes of payload, far below what
// the databases allow (MariaDB's default packet is 16 MB).
const (
	maxRows  = 1000
	maxBytes = 4 << 20
)

// write inserts the rows in order on pool, which must be a transaction.
func (in *instance) write(ctx context.Context, db *gorm.DB, pool gorm.ConnPool, rows []row) error {
	pool = unprepared(pool)
	l, err := in.layout(ctx, pool)
	if err != nil {
		return err
	}
	most := in.dialect.MaxParams() / dialect.EventColumns
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < maxRows && n < most && (n == 0 || size+len(rows[n].payload) <= maxBytes) {
			size += len(rows[n].payload)
			n++
		}
		if err := in.writeChunk(ctx, db, pool, rows[:n], l); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (in *instance) writeChunk(ctx context.Context, db *gorm.DB, pool gorm.ConnPool, rows []row, l layout) error {
	out := make([]dialect.EventRow, len(rows))
	for i := range rows {
		r := &rows[i]
		headers := []byte("{}")
		if len(r.headers) > 0 {
			var err error
			if headers, err = json.Marshal(r.headers); err != nil {
				return fmt.Errorf("gormoutbox: encoding headers: %w", err) // not reached: headers are valid UTF-8
			}
		}
		out[i] = dialect.EventRow{
			Part: l.part(r.aggregateType, r.aggregateID, r.id), ID: r.id, AggregateType: r.aggregateType, AggregateID: r.aggregateID, EventType: r.eventType,
			Topic: r.topic, Payload: r.payload, Headers: string(headers),
		}
		if !r.availableAt.IsZero() {
			out[i].AvailableAt = r.availableAt.UnixMicro()
		}
	}
	text, args := in.insert.Build(out)
	begin := time.Now()
	_, err := pool.ExecContext(ctx, text, args...)
	if err != nil {
		in.partitions.Store(nil) // read again, in case that the fence of Repartition refused the rows
		err = in.fenced(err)
		// Wrapped, so that TranslateError does not take it for the user's own conflict.
		err = fmt.Errorf("gormoutbox: writing %d events to %s: %w", len(rows), in.tables.Events, err)
	}
	db.Logger.Trace(ctx, begin, func() (string, int64) { return text, int64(len(rows)) }, err)
	return err
}

// layout reads the partitions at the first event, and with them whether the tables are those of this
// version, on the statement's own connection: a pool of one connection has no other.
func (in *instance) layout(ctx context.Context, pool gorm.ConnPool) (layout, error) {
	if l := in.partitions.Load(); l != nil {
		return *l, nil
	}
	t := in.tables
	var n, version, first, last sql.NullInt64
	partitions := " FROM " + in.dialect.Quote(t.Partitions) + ")"
	query := "SELECT (SELECT COUNT(*)" + partitions + ", (SELECT COALESCE(MAX(version), 0) FROM " + in.dialect.Quote(t.Schema) +
		"), (SELECT COUNT(*) FROM " + in.dialect.Quote(t.Events) + " WHERE 1 = 0), (SELECT MIN(part)" + partitions + ", (SELECT MAX(part)" + partitions
	if err := pool.QueryRowContext(ctx, query).Scan(&n, &version, new(sql.NullInt64), &first, &last); err != nil {
		if ctx.Err() != nil {
			return layout{}, fmt.Errorf("gormoutbox: reading the partition count: %w", err)
		}
		problem := fmt.Sprintf("one of the tables %s, %s and %s can't be read", t.Events, t.Partitions, t.Schema)
		return layout{}, &SchemaError{Problems: []string{problem}, err: fmt.Errorf("%s: %w", problem, err)}
	}
	l := layout{first: int(first.Int64), count: int(n.Int64)}
	problem := l.problem(t, int(last.Int64))
	if version.Int64 != schemaVersion {
		problem = fmt.Sprintf("%s says version %d and this code needs %d", t.Schema, version.Int64, schemaVersion)
	}
	if problem != "" {
		return layout{}, &SchemaError{Problems: []string{problem}, err: errors.New(problem)}
	}
	in.partitions.Store(&l)
	return l, nil
}

// finish adds what the plugin and the context say to a row that toRow made.
func (in *instance) finish(ctx context.Context, r *row, own map[string]string) error {
	if in.config.Headers != nil {
		if err := addHeaders(r.headers, in.config.Headers(ctx)); err != nil {
			return err
		}
	}
	if err := addHeaders(r.headers, contextHeaders(ctx)); err != nil {
		return err
	}
	if err := addHeaders(r.headers, own); err != nil {
		return err
	}
	if err := addDefaults(r.headers, defaultHeaders(ctx)); err != nil {
		return err
	}
	if r.topic == "" && in.config.Topic != nil {
		r.topic = in.config.Topic(TopicParams{AggregateType: r.aggregateType, AggregateID: r.aggregateID, EventType: r.eventType})
		if r.topic != "" {
			if err := checkName("Topic", r.topic); err != nil {
				return err
			}
		}
	}
	if limit := in.config.MaxPayload; limit > 0 && len(r.payload) > limit {
		return &EventError{
			Field: "Payload", Cause: fmt.Sprintf("it has %d bytes and Config.MaxPayload is %d", len(r.payload), limit),
			Cure: "send a reference instead of the content, or raise the limit if the broker takes such messages",
		}
	}
	if r.id == uuid.Nil {
		return &EventError{Field: "ID", Cause: "it is zero", Cure: "leave ids to the plugin"}
	}
	return nil
}
