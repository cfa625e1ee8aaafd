package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// statements are those that the middleware runs, and those of Purge.
type statements struct {
	insert, exists, alone, purge string
	// committed is exists for records that are committed, whatever the session's isolation.
	committed string

	sequence sequenceStatements
}

// insertForms insert a record or affect no row.
//
// MySQL's ON DUPLICATE KEY UPDATE can't be used: with clientFoundRows=true in the
// DSN it reports one row for a new record and for a duplicate alike. INSERT
// IGNORE reports 1 and 0 whatever the DSN says. What else it may ignore is kept
// away (lengths are checked before) or found out by the second statement.
// Deadlocks and lock timeouts it does not ignore.
//
// The conflict target makes a table without the primary key an error, where
// it would let every message pass.
var insertForms = map[string]string{
	"postgres": `INSERT INTO {table} (consumer, event_id, processed_at) VALUES (?, ?, {now}) ON CONFLICT (consumer, event_id) DO NOTHING`,
	"sqlite":   `INSERT INTO {table} (consumer, event_id, processed_at) VALUES (?, ?, {now}) ON CONFLICT (consumer, event_id) DO NOTHING`,
	"mysql":    `INSERT IGNORE INTO {table} (consumer, event_id, processed_at) VALUES (?, ?, {now})`,
}

const existsForm = `SELECT 1 FROM {table} WHERE consumer = ? AND event_id = ?`

func statementsFor(d dialect.Dialect, table string, retention time.Duration) statements {
	r := strings.NewReplacer("{table}", d.Quote(table), "{now}", d.Now(), "{old}", d.NowPlus(-retention), "{n}", strconv.Itoa(purgeRows),
		"{streams}", d.Quote(table+suffixSequences))
	// Replaced after Rebind, which must not look for "?" in the table's name.
	s := statements{
		insert: r.Replace(d.Rebind(insertForms[d.Name()])),
		exists: r.Replace(d.Rebind(existsForm)),
		alone:  "SELECT version FROM " + d.Quote(table+suffixSchema) + " WHERE version = 1" + d.SkipLocked(),
		purge:  r.Replace(purgeForms[d.Name()]),

		committed: r.Replace(d.Rebind(existsForm)),
	}
	if d.Name() == "mysql" { // which shows uncommitted rows to sessions at READ UNCOMMITTED
		s.committed += d.SkipLocked()
	}
	s.addSequences(d.Name(), d.Rebind, r, d.ForUpdate())
	return s
}

// record inserts the record and tells whether it is new. It waits for another
// transaction that has inserted the same one until that has ended.
func (d *Deduplicator) record(ctx context.Context, pool gorm.ConnPool, k key) (fresh bool, err error) {
	result, err := pool.ExecContext(ctx, d.sql.insert, k.consumer, k.id)
	if err != nil {
		return false, fmt.Errorf("dedup: recording %v: %w", k, err)
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return false, fmt.Errorf("dedup: recording %v: %w", k, err)
	case n > 0:
		return true, nil
	}
	// To ack a message that nobody has handled would lose it, so look before.
	found, err := exists(ctx, pool, d.sql.exists, k.consumer, k.id)
	if err != nil {
		return false, fmt.Errorf("dedup: looking for the record of %v: %w", k, err)
	}
	if !found {
		return false, fmt.Errorf("%w: %v", ErrNotRecorded, k)
	}
	return false, nil
}

func exists(ctx context.Context, pool gorm.ConnPool, query string, args ...any) (found bool, err error) {
	rows, err := pool.QueryContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = rows.Next()
	return found, rows.Err()
}
