package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// MySQL is MySQL 8.0.13 and newer, and MariaDB 10.6 and newer (SKIP LOCKED).
type MySQL struct{}

var _ Dialect = MySQL{}

// lockTimeout bounds the wait for another process that migrates, in seconds.
const lockTimeout = 60

// Name implements Dialect.
func (MySQL) Name() string { return "mysql" }

// Quote implements Dialect.
func (MySQL) Quote(name string) string { return quoteParts(name, '`') }

// Rebind implements Dialect.
func (MySQL) Rebind(query string) string { return query }

// Now implements Dialect. Columns are DATETIME in UTC, so that neither the
// session's time zone nor the driver's "loc" matters.
func (MySQL) Now() string { return "UTC_TIMESTAMP(6)" }

// NowPlus implements Dialect.
func (MySQL) NowPlus(d time.Duration) string {
	return fmt.Sprintf("TIMESTAMPADD(MICROSECOND, %d, UTC_TIMESTAMP(6))", d.Microseconds())
}

// Micros implements Dialect.
func (MySQL) Micros(expr string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', " + expr + ")"
}

// FromMicros implements Dialect.
func (MySQL) FromMicros(micros int64) string {
	return fmt.Sprintf("TIMESTAMPADD(MICROSECOND, %d, CAST('1970-01-01 00:00:00' AS DATETIME(6)))", micros)
}

// IntsIn implements Dialect.
func (MySQL) IntsIn(expr string, ids []int64) (string, []any) { return inLiteral(expr, ids), nil }

// ForUpdate implements Dialect.
func (MySQL) ForUpdate() string { return " FOR UPDATE" }

// SkipLocked implements Dialect.
func (MySQL) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// MaxParams implements Dialect: the protocol counts them in 16 bits.
func (MySQL) MaxParams() int { return 65535 }

// Columns implements Dialect.
func (MySQL) Columns(ctx context.Context, q Queryer, table string) ([]Column, error) {
	schema, name := SplitName(table)
	return queryColumns(ctx, q, `SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? ORDER BY ordinal_position`, schema, name)
}

// Indexes implements Dialect.
func (MySQL) Indexes(ctx context.Context, q Queryer, table string) ([]string, error) {
	schema, name := SplitName(table)
	return queryStrings(ctx, q, `SELECT DISTINCT index_name FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?`, schema, name)
}

// Fence implements Dialect: a CHECK as on PostgreSQL. MariaDB and MySQL write the table anew for it and look at
// every row, so the statement fails where an event is pending. It waits for every transaction that has used the table. MySQL before
// 8.0.16 reads over it.
func (m MySQL) Fence(ctx context.Context, q Queryer, events, name string, from int) error {
	have, err := m.hasCheck(ctx, q, events, name)
	if err != nil || have {
		return err
	}
	if _, err := q.ExecContext(ctx, "ALTER TABLE "+m.Quote(events)+" ADD CONSTRAINT "+m.Quote(name)+" "+fence(from)); err != nil {
		return err
	}
	if have, err = m.hasCheck(ctx, q, events, name); err == nil && !have {
		err = errors.New("this release of the database has no CHECK constraints: update it, MySQL to 8.0.16 or later")
	}
	return err
}

func (MySQL) hasCheck(ctx context.Context, q Queryer, table, name string) (bool, error) {
	schema, table := SplitName(table)
	have, err := queryStrings(ctx, q, `SELECT constraint_name FROM information_schema.table_constraints
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? AND constraint_name = ? AND constraint_type = 'CHECK'`, schema, table, name)
	return len(have) > 0, err
}

// Lock implements Dialect: GET_LOCK on one connection. CREATE TABLE commits by
// itself here, so the statements of fn must be repeatable.
func (MySQL) Lock(ctx context.Context, db *sql.DB, name string, fn func(Queryer) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("taking a connection: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// Names of locks are server-wide and at most 64 characters long.
	const key = `CONCAT('gormoutbox:', SHA1(CONCAT(COALESCE(DATABASE(), ''), '/', ?)))`
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+key+", ?)", name, lockTimeout).Scan(&got); err != nil {
		return fmt.Errorf("taking the lock: %w", err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another process has been migrating %q for %d s", name, lockTimeout)
	}
	defer func() {
		// Released with a living context, or the connection would go back to the pool with its lock.
		_, e := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+key+")", name)
		err = errors.Join(err, e)
	}()
	return fn(conn)
}

// UniqueIndex is a unique index or the primary key of a table.
type UniqueIndex struct {
	Name    string
	Columns []string
	// Partial says that it is over a prefix of a column or over an expression, which has no name.
	Partial bool
}

// UniqueIndexes lists the unique indexes of a table.
func (MySQL) UniqueIndexes(ctx context.Context, q Queryer, table string) (out []UniqueIndex, err error) {
	schema, name := SplitName(table)
	rows, err := q.QueryContext(ctx, `SELECT index_name, COALESCE(column_name, ''), sub_part IS NOT NULL OR column_name IS NULL
FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? AND non_unique = 0
ORDER BY index_name, seq_in_index`, schema, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var index, column string
		var partial bool
		if err := rows.Scan(&index, &column, &partial); err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].Name != index {
			out = append(out, UniqueIndex{Name: index})
		}
		last := &out[len(out)-1]
		last.Columns, last.Partial = append(last.Columns, column), last.Partial || partial
	}
	return out, rows.Err()
}
