package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	gormsqlite "github.com/libtnb/sqlite"
	"gorm.io/gorm"
)

// sqlite keeps each database in a folder of its own below the one for temporary files.
type sqlite struct{}

func (sqlite) kind() string { return "SQLite" }

func (sqlite) dialector(dsn string) gorm.Dialector { return gormsqlite.Open(dsn) }

func (sqlite) folder(name string) string { return filepath.Join(os.TempDir(), name) }

// create has the settings that a service should have.
func (s sqlite) create(_ context.Context, name string) (string, error) {
	settings := url.Values{"_journal_mode": {"WAL"}, "_busy_timeout": {"10000"}, "_txlock": {"immediate"}, "_foreign_keys": {"on"}}
	const private = 0o700
	return filepath.Join(s.folder(name), "outbox.db") + "?" + settings.Encode(), os.Mkdir(s.folder(name), private)
}

func (s sqlite) drop(_ context.Context, name string) error { return os.RemoveAll(s.folder(name)) }

func (sqlite) insert(ctx context.Context, pool *sql.DB, e events, first, n int) error {
	if e.processed {
		return errors.New("only PostgreSQL has figures about published events")
	}
	if err := numberKeys(ctx, pool, e); err != nil {
		return err
	}
	prefix, err := idPrefix()
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, `WITH RECURSIVE g (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM g WHERE n < ?)
		INSERT INTO outbox_events (part, id, aggregate_type, aggregate_id, event_type, topic, payload)
		SELECT k.part, printf('%s%012x', ?, g.n), ?, CAST(k.n AS TEXT), 'a.happened', ?, CAST(? AS BLOB)
		FROM g CROSS JOIN benchrelay_keys k ON k.n = g.n % ?`,
		first, first+n-1, prefix, e.aggregate, e.topic, string(payload()), e.keys)
	return err
}

func (sqlite) analyze(ctx context.Context, pool *sql.DB) error {
	for _, statement := range []string{"ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
