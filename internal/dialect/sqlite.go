package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SQLite is SQLite 3.35 and newer (RETURNING).
type SQLite struct{}

var _ Dialect = SQLite{}

// sqliteFormat is fixed in width, so that the text of two times compares as the times do.
const sqliteFormat = `'%Y-%m-%d %H:%M:%f'`

// sqliteBusy is how long a migration waits for other writers, in milliseconds.
const sqliteBusy = 30_000

// Name implements Dialect.
func (SQLite) Name() string { return "sqlite" }

// Quote implements Dialect.
func (SQLite) Quote(name string) string { return quoteParts(name, '"') }

// Rebind implements Dialect.
func (SQLite) Rebind(query string) string { return query }

// Now implements Dialect. SQLite's clock has milliseconds.
func (SQLite) Now() string { return "strftime(" + sqliteFormat + ", 'now')" }

// NowPlus implements Dialect.
func (SQLite) NowPlus(d time.Duration) string {
	return fmt.Sprintf("strftime(%s, 'now', '%+.3f seconds')", sqliteFormat, d.Seconds())
}

// Micros implements Dialect.
func (SQLite) Micros(expr string) string {
	return "(CAST(strftime('%s', " + expr + ") AS INTEGER) * 1000000 + CAST(substr(strftime('%f', " + expr + "), 4) AS INTEGER) * 1000)"
}

// FromMicros implements Dialect.
func (SQLite) FromMicros(micros int64) string {
	return "'" + time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05.000") + "'"
}

// IntsIn implements Dialect.
func (SQLite) IntsIn(expr string, ids []int64) (string, []any) { return inLiteral(expr, ids), nil }

// ForUpdate implements Dialect.
func (SQLite) ForUpdate() string { return "" }

// SkipLocked implements Dialect.
func (SQLite) SkipLocked() string { return "" }

// MaxParams implements Dialect: SQLITE_MAX_VARIABLE_NUMBER since 3.32.
func (SQLite) MaxParams() int { return 32766 }

// Columns implements Dialect. Generated columns are in table_xinfo only, where 1 is a hidden one of a virtual table.
func (SQLite) Columns(ctx context.Context, q Queryer, table string) ([]Column, error) {
	schema, name := sqliteName(table)
	return queryColumns(ctx, q, `SELECT name, type FROM pragma_table_xinfo(?, ?) WHERE hidden <> 1 ORDER BY cid`, name, schema)
}

// Indexes implements Dialect.
func (SQLite) Indexes(ctx context.Context, q Queryer, table string) ([]string, error) {
	schema, name := sqliteName(table)
	return queryStrings(ctx, q, `SELECT name FROM pragma_index_list(?, ?)`, name, schema)
}

// AutoIncrement says whether the table's rowid is never used twice.
func (s SQLite) AutoIncrement(ctx context.Context, q Queryer, table string) (bool, error) {
	schema, name := sqliteName(table)
	found, err := queryStrings(ctx, q, `SELECT name FROM `+s.Quote(schema)+`.sqlite_master
WHERE type = 'table' AND name = ? AND upper(sql) LIKE '%AUTOINCREMENT%'`, name)
	return len(found) == 1, err
}

// Fence implements Dialect: a trigger, since a table can't be given a CHECK later.
func (s SQLite) Fence(ctx context.Context, q Queryer, events, name string, from int) error {
	_, err := q.ExecContext(ctx, fmt.Sprintf("CREATE TRIGGER IF NOT EXISTS %s BEFORE INSERT ON %s WHEN NEW.part < %d BEGIN SELECT RAISE(ABORT, '%s'); END",
		s.Quote(name), s.Quote(events), from, strings.ReplaceAll(name, "'", "''")))
	return err
}

func sqliteName(table string) (schema, name string) {
	schema, name = SplitName(table)
	if schema == "" {
		schema = "main"
	}
	return schema, name
}

// Lock implements Dialect: the one write transaction that SQLite allows.
func (SQLite) Lock(ctx context.Context, db *sql.DB, _ string, fn func(Queryer) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("taking a connection: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	cleanup := context.WithoutCancel(ctx)
	var busy int64
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy); err != nil {
		return fmt.Errorf("reading busy_timeout: %w", err)
	}
	if busy < sqliteBusy {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", sqliteBusy)); err != nil {
			return fmt.Errorf("setting busy_timeout: %w", err)
		}
		defer func() {
			_, e := conn.ExecContext(cleanup, fmt.Sprintf("PRAGMA busy_timeout = %d", busy))
			err = errors.Join(err, e)
		}()
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if err := fn(conn); err != nil {
		_, e := conn.ExecContext(cleanup, "ROLLBACK")
		return errors.Join(err, e)
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		_, e := conn.ExecContext(cleanup, "ROLLBACK")
		return errors.Join(err, e)
	}
	return nil
}
