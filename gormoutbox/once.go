package gormoutbox

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// onceChunk is how many ids are looked for by one statement.
const onceChunk = 500

// onlyNew leaves out the events with Once whose id the outbox has already. It is asked before the INSERT: one that passes over
// conflicts could not tell which rows it passed over, and a partitioned table has no unique index for it.
func (in *instance) onlyNew(ctx context.Context, pool gorm.ConnPool, rows []row) ([]row, error) {
	var ids []any
	for i := range rows {
		if rows[i].once {
			ids = append(ids, rows[i].id.String())
		}
	}
	if len(ids) == 0 {
		return rows, nil
	}
	if _, err := in.layout(ctx, pool); err != nil { // says what is wrong with the tables
		return nil, err
	}
	there := map[uuid.UUID]bool{}
	for len(ids) > 0 {
		n := min(len(ids), onceChunk)
		if err := in.findIDs(ctx, pool, ids[:n], there); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	fresh := make([]row, 0, len(rows))
	for i := range rows {
		if r := &rows[i]; r.once && there[r.id] {
			in.config.Logger.WarnContext(ctx, "event is in the outbox already and is not written again",
				slog.String("event_id", r.id.String()), slog.String("event_type", r.eventType))
			continue
		}
		fresh = append(fresh, rows[i])
	}
	return fresh, nil
}

func (in *instance) findIDs(ctx context.Context, pool gorm.ConnPool, ids []any, there map[uuid.UUID]bool) error {
	query := in.dialect.Rebind("SELECT id FROM " + in.dialect.Quote(in.tables.Events) + " WHERE id IN (?" + strings.Repeat(",?", len(ids)-1) + ")")
	rows, err := pool.QueryContext(ctx, query, ids...)
	if err != nil {
		return fmt.Errorf("gormoutbox: looking for events that are there: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("gormoutbox: looking for events that are there: %w", err)
		}
		there[id] = true
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("gormoutbox: looking for events that are there: %w", err)
	}
	return nil
}
