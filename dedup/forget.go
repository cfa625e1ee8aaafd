package dedup

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Forget removes the records of these messages, so that the consumer handles them again when they come again, after a replay for example. It
// returns how many there were. Handlers that run meanwhile are not affected: their record is not there yet. db may be a transaction.
//
// What a handler returns for such a message has the ids that it had before (OutputID), so events that are still in the outbox are not
// published again; those that it makes by a publisher or by gormoutbox.Append have new ones.
//
// How far streams have come (Config.Sequence) is not forgotten: what comes again is late there, and is skipped unless Sequence.Late is ApplyLate.
func Forget(ctx context.Context, db *gorm.DB, consumer string, ids ...string) (int64, error) {
	return forget(ctx, db, DefaultTable, consumer, ids)
}

// Forget is the function Forget for the table of d.
func (d *Deduplicator) Forget(ctx context.Context, consumer string, ids ...string) (int64, error) {
	return forget(ctx, d.db, d.config.Table, consumer, ids)
}

// forgetIDs is how many ids one statement has at most.
const forgetIDs = 500

func forget(ctx context.Context, db *gorm.DB, table, consumer string, ids []string) (n int64, err error) {
	d, err := dialect.For(db)
	if err != nil {
		return 0, &ConfigError{Field: "db", Cause: err.Error(), Cure: "pass an open *gorm.DB of a supported database"}
	}
	if db.Error != nil {
		return 0, fmt.Errorf("dedup: forgetting on a failed *gorm.DB: %w", db.Error)
	}
	if db.DryRun {
		return 0, &ConfigError{Field: "db", Cause: "it is in DryRun mode", Cure: "pass a *gorm.DB that executes its statements"}
	}
	if consumer == "" {
		return 0, &KeyError{Part: partConsumer, Err: ErrNoConsumer}
	}
	pool := db.Statement.ConnPool
	for len(ids) > 0 {
		some := ids[:min(len(ids), forgetIDs)]
		ids = ids[len(some):]
		args := make([]any, 0, len(some)+1)
		args = append(args, consumer)
		for _, id := range some {
			args = append(args, id)
		}
		query := d.Rebind("DELETE FROM "+d.Quote(table)+" WHERE consumer = ? AND event_id IN (?"+strings.Repeat(",?", len(some)-1)) + ")"
		result, err := pool.ExecContext(ctx, query, args...)
		if err != nil {
			return n, fmt.Errorf("dedup: forgetting %d messages of consumer %q: %w", len(some), consumer, err)
		}
		removed, err := result.RowsAffected()
		if err != nil {
			return n, fmt.Errorf("dedup: forgetting: %w", err)
		}
		n += removed
	}
	return n, nil
}
