package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SQLServer is Microsoft SQL Server, for the capture of writes alone: it was
// held against GORM's driver with a recording pool, and never against a server.
type SQLServer struct{}

var _ Dialect = SQLServer{}

// Name implements Dialect.
func (SQLServer) Name() string { return "sqlserver" }

// Quote implements Dialect.
func (SQLServer) Quote(name string) string { return quoteParts(name, '"') }

// Rebind implements Dialect.
func (SQLServer) Rebind(query string) string { return rebind(query, "@p") }

// Now implements Dialect.
func (SQLServer) Now() string { return "SYSUTCDATETIME()" }

// NowPlus implements Dialect.
func (SQLServer) NowPlus(d time.Duration) string {
	return fmt.Sprintf("DATEADD(millisecond, %d, SYSUTCDATETIME())", d.Milliseconds())
}

// Micros implements Dialect.
func (SQLServer) Micros(expr string) string {
	return "DATEDIFF_BIG(microsecond, '1970-01-01', " + expr + ")"
}

// FromMicros implements Dialect. DATEADD takes 32 bits.
func (SQLServer) FromMicros(micros int64) string {
	const minute = 60_000_000
	return fmt.Sprintf("DATEADD(microsecond, %d, DATEADD(minute, %d, CAST('1970-01-01' AS datetime2(6))))", micros%minute, micros/minute)
}

// IntsIn implements Dialect.
func (SQLServer) IntsIn(expr string, ids []int64) (string, []any) { return inLiteral(expr, ids), nil }

// ForUpdate implements Dialect: see Traits.LockHint.
func (SQLServer) ForUpdate() string { return "" }

// SkipLocked implements Dialect: a hint, too.
func (SQLServer) SkipLocked() string { return "" }

// MaxParams implements Dialect: 2,100, of which sp_executesql takes two for itself.
func (SQLServer) MaxParams() int { return 2098 }

// Columns implements Dialect.
func (SQLServer) Columns(ctx context.Context, q Queryer, table string) ([]Column, error) {
	schema, name := SplitName(table)
	return queryColumns(ctx, q, `SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF(@p1, ''), SCHEMA_NAME()) AND table_name = @p2 ORDER BY ordinal_position`, schema, name)
}

// Indexes implements Dialect.
func (SQLServer) Indexes(ctx context.Context, q Queryer, table string) ([]string, error) {
	return queryStrings(ctx, q, `SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID(@p1) AND name IS NOT NULL`, table)
}

// Fence implements Dialect.
func (SQLServer) Fence(context.Context, Queryer, string, string, int) error {
	return errors.New("a relay for SQL Server does not exist yet")
}

// Lock implements Dialect.
func (SQLServer) Lock(context.Context, *sql.DB, string, func(Queryer) error) error {
	return errors.New("migrations for SQL Server do not exist yet")
}

// rebind turns "?" outside of quotes into numbered placeholders.
func rebind(query, prefix string) string {
	var b strings.Builder
	b.Grow(len(query) + 16)
	n := 0
	var quote byte
	for i := range len(query) {
		c := query[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
			b.WriteByte(c)
		case c == '?':
			n++
			b.WriteString(prefix)
			b.WriteString(strconv.Itoa(n))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
