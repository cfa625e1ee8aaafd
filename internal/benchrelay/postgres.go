package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// postgres is PostgreSQL at the URL of one of its databases.
type postgres struct {
	dsn string
}

func (postgres) kind() string { return "PostgreSQL" }

func (postgres) dialector(dsn string) gorm.Dialector { return gormpostgres.Open(dsn) }

// with opens the database in which others are made.
func (p postgres) with(_ context.Context, fn func(pool *sql.DB) error) error {
	pool, err := sql.Open("pgx", p.dsn)
	if err != nil {
		return fmt.Errorf("opening PostgreSQL: %w", err)
	}
	defer pool.Close()
	return fn(pool)
}

func (p postgres) create(ctx context.Context, name string) (string, error) {
	return p.createAs(ctx, name, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
}

// clone copies a database to which nobody is connected. Files are copied as they are: a copy page by page through
// the log, as is the default, takes several times as long.
func (p postgres) clone(ctx context.Context, from, name string) (string, error) {
	return p.createAs(ctx, name, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+pgx.Identifier{from}.Sanitize()+" STRATEGY FILE_COPY")
}

func (p postgres) createAs(ctx context.Context, name, statement string) (string, error) {
	u, err := url.Parse(p.dsn)
	if err != nil {
		return "", fmt.Errorf("parsing the connection string, which must be a URL: %w", err)
	}
	err = p.with(ctx, func(pool *sql.DB) error {
		_, err := pool.ExecContext(ctx, statement)
		return err
	})
	u.Path = "/" + name
	return u.String(), err
}

func (p postgres) drop(ctx context.Context, name string) error {
	return p.with(ctx, func(pool *sql.DB) error {
		_, err := pool.ExecContext(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

func (postgres) insert(ctx context.Context, pool *sql.DB, e events, first, n int) error {
	prefix, err := idPrefix()
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, `INSERT INTO outbox_events (part, id, aggregate_type, aggregate_id, event_type, topic, payload, processed_at)
		SELECT ($1::int[])[1 + g % $2::int], ($3 || lpad(to_hex(g), 12, '0'))::uuid, $4, (g % $2::int)::text, 'a.happened', $5,
			convert_to(repeat('x', $6::int), 'UTF8'), CASE WHEN $7::boolean THEN clock_timestamp() END
		FROM generate_series($8::int, $9::int) g`,
		e.partitions(), e.keys, prefix, e.aggregate, e.topic, payloadBytes, e.processed, first, first+n-1)
	return err
}

func (postgres) analyze(ctx context.Context, pool *sql.DB) error {
	_, err := pool.ExecContext(ctx, "VACUUM ANALYZE")
	return err
}
