package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Postgres is PostgreSQL 13 and newer (xid8 came with 13).
type Postgres struct{}

var _ Dialect = Postgres{}

// Name implements Dialect.
func (Postgres) Name() string { return "postgres" }

// Quote implements Dialect.
func (Postgres) Quote(name string) string { return quoteParts(name, '"') }

// Rebind implements Dialect.
func (Postgres) Rebind(query string) string { return rebind(query, "$") }

// Now implements Dialect. now() would be the start of the transaction.
func (Postgres) Now() string { return "clock_timestamp()" }

// NowPlus implements Dialect.
func (Postgres) NowPlus(d time.Duration) string {
	return fmt.Sprintf("(clock_timestamp() + interval '%d microseconds')", d.Microseconds())
}

// Micros implements Dialect.
func (Postgres) Micros(expr string) string {
	return "(extract(epoch from " + expr + ") * 1000000)::bigint"
}

// FromMicros implements Dialect.
func (Postgres) FromMicros(micros int64) string {
	return fmt.Sprintf("(timestamptz 'epoch' + interval '%d microseconds')", micros)
}

// IntsIn implements Dialect. The list is one parameter, so that the text of the
// statement, and with it the prepared plan, does not depend on its length. It is
// passed as text because database/sql drivers have no common array type.
func (Postgres) IntsIn(expr string, ids []int64) (string, []any) {
	return expr + " = ANY(?::bigint[])", []any{IntArray(ids)}
}

// IntArray is the text form of a bigint[].
func IntArray(ids []int64) string {
	var b strings.Builder
	b.WriteByte('{')
	writeInts(&b, ids)
	b.WriteByte('}')
	return b.String()
}

// ForUpdate implements Dialect.
func (Postgres) ForUpdate() string { return " FOR UPDATE" }

// SkipLocked implements Dialect.
func (Postgres) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// MaxParams implements Dialect: the protocol counts them in 16 bits.
func (Postgres) MaxParams() int { return 65535 }

// Columns implements Dialect.
func (p Postgres) Columns(ctx context.Context, q Queryer, table string) ([]Column, error) {
	return queryColumns(ctx, q, `SELECT a.attname::text, t.typname::text FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, p.Quote(table))
}

// Indexes implements Dialect.
func (p Postgres) Indexes(ctx context.Context, q Queryer, table string) ([]string, error) {
	return queryStrings(ctx, q, `SELECT c.relname::text FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = to_regclass($1) AND i.indisvalid`, p.Quote(table))
}

// SequenceCache is the CACHE of the sequence behind an identity column, 0 if there is none.
func (p Postgres) SequenceCache(ctx context.Context, q Queryer, table, column string) (cache int64, err error) {
	rows, err := q.QueryContext(ctx, `SELECT seqcache FROM pg_sequence
WHERE seqrelid = to_regclass(pg_get_serial_sequence($1, $2))`, p.Quote(table), column)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		if err := rows.Scan(&cache); err != nil {
			return 0, err
		}
	}
	return cache, rows.Err()
}

// Fence implements Dialect: a CHECK, which the database holds against every new row, whatever its writer knew and
// whenever it began. Rows that are published and keep their old number satisfy it. NOT VALID spares the look at
// them. The statement waits for every transaction that has written events.
func (p Postgres) Fence(ctx context.Context, q Queryer, events, name string, from int) error {
	have, err := queryStrings(ctx, q, `SELECT conname::text FROM pg_constraint WHERE conrelid = to_regclass($1) AND conname = $2`, p.Quote(events), name)
	if err != nil || len(have) > 0 {
		return err
	}
	_, err = q.ExecContext(ctx, "ALTER TABLE "+p.Quote(events)+" ADD CONSTRAINT "+p.Quote(name)+" "+fence(from)+" NOT VALID")
	return err
}

// Lock implements Dialect: an advisory lock and one transaction.
func (Postgres) Lock(ctx context.Context, db *sql.DB, name string, fn func(Queryer) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	defer func() {
		if err != nil {
			if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
				err = errors.Join(err, e)
			}
		}
	}()
	h := fnv.New64a()
	_, _ = h.Write([]byte("gormoutbox:" + name)) // never fails
	key := int64(h.Sum64())                      //nolint:gosec // any 64 bits will do as a lock key
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, key); err != nil {
		return fmt.Errorf("taking the advisory lock: %w", err)
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
