package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// numberKeys writes the numbers of the aggregates with their partitions into a table, for databases that have no arrays.
func numberKeys(ctx context.Context, pool *sql.DB, e events) error {
	rows := make([]string, e.keys)
	for i, part := range e.partitions() {
		rows[i] = fmt.Sprintf("(%d,%d)", i, part)
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS benchrelay_keys (n INTEGER NOT NULL PRIMARY KEY, part INTEGER NOT NULL)",
		"DELETE FROM benchrelay_keys",
		"INSERT INTO benchrelay_keys (n, part) VALUES " + strings.Join(rows, ","),
	} {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("numbering the aggregates: %w", err)
		}
	}
	return nil
}
