package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// mariadb is MariaDB at a DSN without a database.
type mariadb struct {
	dsn string
}

func (mariadb) kind() string { return "MariaDB" }

func (mariadb) dialector(dsn string) gorm.Dialector { return mysql.Open(dsn) }

func (m mariadb) with(fn func(pool *sql.DB) error) error {
	pool, err := sql.Open("mysql", m.dsn)
	if err != nil {
		return fmt.Errorf("opening MariaDB: %w", err)
	}
	defer pool.Close()
	return fn(pool)
}

func (m mariadb) create(ctx context.Context, name string) (string, error) {
	config, err := mysqldriver.ParseDSN(m.dsn)
	if err != nil {
		return "", fmt.Errorf("parsing the DSN: %w", err)
	}
	config.DBName, config.ParseTime = name, true
	err = m.with(func(pool *sql.DB) error {
		_, err := pool.ExecContext(ctx, "CREATE DATABASE "+name)
		return err
	})
	return config.FormatDSN(), err
}

func (m mariadb) drop(ctx context.Context, name string) error {
	return m.with(func(pool *sql.DB) error {
		_, err := pool.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
		return err
	})
}

func (mariadb) insert(ctx context.Context, pool *sql.DB, e events, first, n int) error {
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
	_, err = pool.ExecContext(ctx, fmt.Sprintf(`INSERT INTO outbox_events (part, id, aggregate_type, aggregate_id, event_type, topic, payload, headers)
		SELECT k.part, CONCAT(?, LPAD(LOWER(HEX(s.seq)), 12, '0')), ?, k.n, 'a.happened', ?, REPEAT('x', ?), '{}'
		FROM seq_%d_to_%d s JOIN benchrelay_keys k ON k.n = s.seq %% ? ORDER BY s.seq`, first, first+n-1),
		prefix, e.aggregate, e.topic, payloadBytes, e.keys)
	return err
}

func (mariadb) analyze(ctx context.Context, pool *sql.DB) error {
	rows, err := pool.QueryContext(ctx, "ANALYZE TABLE outbox_events") // it has a result
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}
