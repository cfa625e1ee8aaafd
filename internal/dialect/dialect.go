// Package dialect holds what differs between the databases: quoting,
// placeholders, clocks, locks and catalogues. Everything else is written once,
// with "?" as placeholder, and passed through Rebind.
package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
)

// ErrUnsupported is returned by For when the database is none that we know.
var ErrUnsupported = errors.New("unsupported database dialect")

// Queryer is the part of *sql.DB, *sql.Tx and *sql.Conn that the catalogue queries need.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Column is a column as the catalogue of the database describes it.
type Column struct {
	Name string
	// Type is the type's name in lower case, without its length.
	Type string
}

// Dialect is one family of databases.
//
// All timestamps are compared and produced by the database's own clock, so
// that relays on machines with other clocks agree. Timestamps are read as
// microseconds since the Unix epoch, because drivers disagree about time zones.
type Dialect interface {
	// Name is "postgres", "mysql" or "sqlite"; it is the folder of the migrations too.
	Name() string
	// Quote quotes a table name; "schema.table" is quoted part by part.
	Quote(name string) string
	// Rebind turns "?" outside of quotes into the database's placeholders.
	Rebind(query string) string
	// Now is the expression for the current time of the database, not of the transaction.
	Now() string
	// NowPlus is Now moved by d, which may be negative.
	NowPlus(d time.Duration) string
	// Micros turns a timestamp expression into microseconds since the epoch.
	Micros(expr string) string
	// FromMicros turns microseconds since the epoch, written as a literal, into a timestamp.
	FromMicros(micros int64) string
	// IntsIn is the condition "expr is one of ids"; ids must not be empty.
	IntsIn(expr string, ids []int64) (cond string, args []any)
	// ForUpdate is the suffix that locks the selected rows, empty where a
	// transaction locks the whole database anyway.
	ForUpdate() string
	// SkipLocked is ForUpdate that passes over rows which others have locked.
	SkipLocked() string
	// MaxParams is how many placeholders a statement may have.
	MaxParams() int
	// Columns lists the table's columns in their physical order, none if there is no such table.
	Columns(ctx context.Context, q Queryer, table string) ([]Column, error)
	// Indexes lists the names of the table's indexes.
	Indexes(ctx context.Context, q Queryer, table string) ([]string, error)
	// Traits are for the capture of writes.
	Traits() Traits
	// Fence makes the database refuse new rows of the events table whose partition is below from, by a constraint or a
	// trigger of the given name. It does nothing if there is one of this name.
	Fence(ctx context.Context, q Queryer, events, name string, from int) error
	// Lock runs fn while no other process runs fn for the same name. Statements of fn
	// are one transaction where the database can do that for CREATE TABLE.
	Lock(ctx context.Context, db *sql.DB, name string, fn func(Queryer) error) error
}

// For returns the dialect of db. MariaDB counts as MySQL.
func For(db *gorm.DB) (Dialect, error) {
	if db == nil || db.Config == nil || db.Dialector == nil {
		return nil, errors.New("db is nil or was not opened; use gorm.Open")
	}
	switch name := db.Name(); name {
	case "postgres":
		return Postgres{}, nil
	case "mysql":
		return MySQL{}, nil
	case "sqlite":
		return SQLite{}, nil
	default:
		return nil, fmt.Errorf("%w %q: PostgreSQL, MySQL/MariaDB and SQLite are supported", ErrUnsupported, name)
	}
}

// ForCapture is For with the databases whose writes can be captured and that nothing else supports yet.
func ForCapture(db *gorm.DB) (Dialect, error) {
	if db != nil && db.Config != nil && db.Dialector != nil && db.Name() == "sqlserver" {
		return SQLServer{}, nil
	}
	return For(db)
}

// SplitName splits "schema.table" at its last dot; schema is empty without one.
func SplitName(name string) (schema, table string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// fence is the constraint behind Fence. It is about new events: one that is processed may have any number.
func fence(from int) string {
	return fmt.Sprintf("CHECK (part >= %d OR processed_at IS NOT NULL)", from)
}

func quoteParts(name string, quote byte) string {
	var b strings.Builder
	b.Grow(len(name) + 4)
	schema, table := SplitName(name)
	if schema != "" {
		quotePart(&b, schema, quote)
		b.WriteByte('.')
	}
	quotePart(&b, table, quote)
	return b.String()
}

func quotePart(b *strings.Builder, part string, quote byte) {
	b.WriteByte(quote)
	for i := range len(part) {
		if part[i] == quote {
			b.WriteByte(quote)
		}
		b.WriteByte(part[i])
	}
	b.WriteByte(quote)
}

// inLiteral is "expr IN (1,2,3)"; integers need no placeholder.
func inLiteral(expr string, ids []int64) string {
	var b strings.Builder
	b.WriteString(expr)
	b.WriteString(" IN (")
	writeInts(&b, ids)
	b.WriteByte(')')
	return b.String()
}

func writeInts(b *strings.Builder, ids []int64) {
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%d", id)
	}
}

// strings reads all rows of one text column.
func queryStrings(ctx context.Context, q Queryer, query string, args ...any) (out []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func queryColumns(ctx context.Context, q Queryer, query string, args ...any) (out []Column, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c Column
		if err := rows.Scan(&c.Name, &c.Type); err != nil {
			return nil, err
		}
		c.Type = strings.ToLower(c.Type)
		out = append(out, c)
	}
	return out, rows.Err()
}
