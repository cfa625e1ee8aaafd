package gormoutbox

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/internal/migrate"
)

//go:embed migrations
var migrations embed.FS

// Migrations holds the numbered SQL files in the folders postgres, mysql and
// sqlite, with the default names, for use with a migration tool of your own.
var Migrations = must(fs.Sub(migrations, "migrations"))

func must(f fs.FS, err error) fs.FS {
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return f
}

// schemaVersion is the number of the last file in every folder of Migrations.
const schemaVersion = 1

// Limits of the partition count.
const (
	DefaultPartitions = 64
	maxPartitions     = 1024
)

// Migrate creates or updates the outbox tables of every plugin that is
// registered on db, or those with the default names if there is none. Processes
// that call it at once wait for each other; a database that is up to date is
// only read. It ends with Check, and returns a *SchemaError if something is missing that was applied
// before. Nothing else in this module migrates.
func Migrate(ctx context.Context, db *gorm.DB) error {
	configs, err := configsOf(db)
	if err != nil {
		return err
	}
	for _, c := range configs {
		if err := migrate.Up(ctx, db, c.migrations()); err != nil {
			return schemaError(err)
		}
	}
	return nil
}

// Check compares the tables with what this version needs and returns a
// *SchemaError that names every missing table, column and index. It covers the
// same tables as Migrate.
func Check(ctx context.Context, db *gorm.DB) error {
	configs, err := configsOf(db)
	if err != nil {
		return err
	}
	for _, c := range configs {
		if err := migrate.Check(ctx, db, c.migrations()); err != nil {
			return schemaError(err)
		}
	}
	return nil
}

// CheckTable is Check for the tables of one events table, with or without a plugin.
func CheckTable(ctx context.Context, db *gorm.DB, table string) error {
	c := Config{Table: table}.withDefaults()
	if problem := checkTable(c.Table); problem != nil {
		return problem
	}
	if _, err := dialect.For(db); err != nil {
		return &ConfigError{Field: "db", Cause: err.Error(), Cure: "pass an open *gorm.DB of a supported database"}
	}
	if err := migrate.Check(ctx, db, c.migrations()); err != nil {
		return schemaError(err)
	}
	return nil
}

func schemaError(err error) error {
	var m *migrate.Mismatch
	if errors.As(err, &m) {
		return &SchemaError{Problems: m.Problems, err: m}
	}
	return fmt.Errorf("gormoutbox: migrations: %w", err)
}

func configsOf(db *gorm.DB) ([]Config, error) {
	if _, err := dialect.For(db); err != nil {
		return nil, &ConfigError{Field: "db", Cause: err.Error(), Cure: "pass an open *gorm.DB of a supported database"}
	}
	if _, ok := transactionOf(db.Statement.ConnPool); ok {
		return nil, &ConfigError{Field: "db", Cause: "it is a transaction, and the tables are looked at on a connection of their own", Cure: "pass the *gorm.DB from gorm.Open"}
	}
	plugins := pluginsOf(db)
	if len(plugins) == 0 {
		return []Config{Config{}.withDefaults()}, nil
	}
	configs := make([]Config, len(plugins))
	for i, p := range plugins {
		configs[i] = p.config
	}
	return configs, nil
}

// Columns and indexes that the code relies on.
var (
	eventColumns = []string{
		"seq", "part", "id", "aggregate_type", "aggregate_id", "event_type", "topic", "payload", "headers",
		"created_at", "available_at", "processed_at", "attempts", "last_error", "parked_at",
	}
	heldColumns      = []string{"aggregate_type", "aggregate_id", "part", "seq", "until", "reason", "request", "created_at"}
	partitionColumns = []string{"part", "owner", "token", "expires_at", "low"}
	relayColumns     = []string{"id", "started_at", "expires_at"}
)

func (c Config) migrations() migrate.Set {
	t := TablesFor(c.Table)
	_, events := dialect.SplitName(t.Events)
	_, held := dialect.SplitName(t.Held)
	byDialect := func(all []string, mysql ...string) map[string][]string {
		return map[string][]string{"postgres": all, "sqlite": all, "mysql": slices.Concat(all, mysql)}
	}
	return migrate.Set{
		FS:           Migrations,
		VersionTable: t.Schema,
		Rename: map[string]string{
			DefaultTable:              t.Events,
			"outbox_events_id":        events + "_id",
			"outbox_events_seq":       events + "_seq",
			"outbox_events_available": events + "_available",
			"outbox_partitions":       t.Partitions,
			"outbox_held":             t.Held,
			"outbox_held_part":        held + "_part",
			"outbox_relays":           t.Relays,
			"outbox_schema":           t.Schema,
		},
		Replace: map[string]string{"64 - 1": strconv.Itoa(c.Partitions) + " - 1"},
		Tables: []migrate.Table{
			{Name: t.Events, Columns: eventColumns, Indexes: byDialect([]string{events + "_id", events + "_available"}, events+"_seq")},
			{Name: t.Partitions, Columns: partitionColumns},
			{Name: t.Held, Columns: heldColumns, Indexes: byDialect([]string{held + "_part"})},
			{Name: t.Relays, Columns: relayColumns},
		},
		Verify: func(ctx context.Context, d dialect.Dialect, q dialect.Queryer) ([]string, error) {
			columns, err := verifyColumns(ctx, d, q, t)
			if err != nil {
				return nil, err
			}
			l, last, err := readLayout(ctx, d, q, t)
			if err != nil {
				return nil, err
			}
			if problem := l.problem(t, last); problem != "" {
				columns = append(columns, problem)
			}
			return columns, nil
		},
	}
}

// verifyColumns checks the rules on which order and identity rest.
func verifyColumns(ctx context.Context, d dialect.Dialect, q dialect.Queryer, t Tables) ([]string, error) {
	events := t.Events
	switch d := d.(type) {
	case dialect.Postgres:
		columns, err := d.Columns(ctx, q, events)
		if err != nil {
			return nil, err
		}
		at := func(name string) int {
			return slices.IndexFunc(columns, func(c dialect.Column) bool { return c.Name == name })
		}
		var problems []string
		if x := at("xid"); x < 0 || x > at("seq") {
			problems = append(problems, "column "+events+".xid must stand before seq, or a number may be drawn before the transaction has an id")
		}
		cache, err := d.SequenceCache(ctx, q, events, "seq")
		if err != nil {
			return nil, err
		}
		if cache != 1 {
			problems = append(problems, fmt.Sprintf("the sequence of %s.seq has CACHE %d and must have CACHE 1, or numbers are not drawn in order", events, cache))
		}
		return problems, nil
	case dialect.MySQL:
		var problems []string
		for _, table := range []string{events, t.Held} {
			columns, err := d.Columns(ctx, q, table)
			if err != nil {
				return nil, err
			}
			for _, c := range columns {
				if (c.Name == "aggregate_type" || c.Name == "aggregate_id") && c.Type != "varbinary" {
					problems = append(problems, fmt.Sprintf("column %s.%s is %s and must be VARBINARY, or different keys count as one", table, c.Name, c.Type))
				}
			}
		}
		return problems, nil
	case dialect.SQLite:
		ok, err := d.AutoIncrement(ctx, q, events)
		if err != nil {
			return nil, err
		}
		if !ok {
			return []string{"column " + events + ".seq must be AUTOINCREMENT, or numbers are used again"}, nil
		}
	}
	return nil, nil
}
