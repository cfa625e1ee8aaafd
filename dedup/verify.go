package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Columns of the primary key.
const (
	columnConsumer = "consumer"
	columnEventID  = "event_id"
)

// keyQueries list the columns of the primary key in order, each with what keeps it
// from telling all ids apart, or ”. Parameters are those of keyArgs.
var keyQueries = map[string]string{
	"postgres": `SELECT a.attname::text, CASE WHEN COALESCE(c.collisdeterministic, true) THEN '' ELSE 'COLLATE ' || c.collname END
FROM pg_index i CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE i.indrelid = to_regclass($1) AND i.indisprimary ORDER BY k.n`,
	"mysql": `SELECT s.column_name, CASE WHEN c.data_type = 'varbinary' AND c.character_maximum_length >= 255 THEN '' ELSE c.column_type END
FROM information_schema.statistics s
JOIN information_schema.columns c ON c.table_schema = s.table_schema AND c.table_name = s.table_name AND c.column_name = s.column_name
WHERE s.table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND s.table_name = ? AND s.index_name = 'PRIMARY' ORDER BY s.seq_in_index`,
	"sqlite": `SELECT x.name, CASE x.coll WHEN 'BINARY' THEN '' ELSE 'COLLATE ' || x.coll END
FROM pragma_index_list(?, ?) l, pragma_index_xinfo(l.name, ?) x WHERE l.origin = 'pk' AND x.key = 1 ORDER BY x.seqno`,
}

func keyArgs(d dialect.Dialect, table string) []any {
	schema, name := dialect.SplitName(table)
	switch d.(type) {
	case dialect.Postgres:
		return []any{d.Quote(table)}
	case dialect.SQLite:
		if schema == "" {
			schema = "main"
		}
		return []any{name, schema, schema}
	default:
		return []any{schema, name}
	}
}

// verifyKey checks what all rests upon: that the primary key is there and tells
// ids apart byte by byte.
func verifyKey(ctx context.Context, d dialect.Dialect, q dialect.Queryer, table string) (problems []string, err error) {
	rows, err := q.QueryContext(ctx, keyQueries[d.Name()], keyArgs(d, table)...)
	if err != nil {
		return nil, fmt.Errorf("reading the primary key of %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var columns []string
	for rows.Next() {
		var column, flaw string
		if err := rows.Scan(&column, &flaw); err != nil {
			return nil, fmt.Errorf("reading the primary key of %s: %w", table, err)
		}
		columns = append(columns, column)
		if flaw != "" {
			problems = append(problems, fmt.Sprintf("column %s.%s is %s and must be compared byte by byte, or different ids count as one", table, column, flaw))
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the primary key of %s: %w", table, err)
	}
	if !slices.Equal(columns, []string{columnConsumer, columnEventID}) {
		problems = append(problems, fmt.Sprintf("primary key (%s, %s) of %s is missing", columnConsumer, columnEventID, table))
	}
	return problems, nil
}
