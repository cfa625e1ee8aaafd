package dedup

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

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

// Suffixes of the names that are made from the table's.
const (
	suffixIndex  = "_processed_at"
	suffixSchema = "_schema"
	// suffixSequences is that of the table of streams, see Sequence.
	suffixSequences = "_sequences"
)

// Migrate creates or updates the table with the default name. Processes that call it
// at once wait for each other; a database that is up to date is only read.
// Nothing else in this package migrates.
func Migrate(ctx context.Context, db *gorm.DB) error {
	return MigrateTable(ctx, db, DefaultTable)
}

// MigrateTable is Migrate for the table that Config.Table names.
func MigrateTable(ctx context.Context, db *gorm.DB, table string) error {
	return withSet(db, table, func(set migrate.Set) error { return migrate.Up(ctx, db, set) })
}

// Check compares the table with the default name with what this version needs and returns
// a *SchemaError that names what is missing: the table, columns, the primary
// key, the index, the version; and columns that are not compared byte by byte.
func Check(ctx context.Context, db *gorm.DB) error {
	return CheckTable(ctx, db, DefaultTable)
}

// CheckTable is Check for the table that Config.Table names.
func CheckTable(ctx context.Context, db *gorm.DB, table string) error {
	return withSet(db, table, func(set migrate.Set) error { return migrate.Check(ctx, db, set) })
}

func withSet(db *gorm.DB, table string, fn func(migrate.Set) error) error {
	d, err := checkDB(db)
	if err := errors.Join(err, checkTable(table)); err != nil {
		return err
	}
	err = fn(setFor(d, table))
	if m, ok := errors.AsType[*migrate.Mismatch](err); ok {
		return &SchemaError{Problems: m.Problems, err: m}
	}
	if err != nil {
		return fmt.Errorf("dedup: migrations: %w", err)
	}
	return nil
}

func setFor(d dialect.Dialect, table string) migrate.Set {
	schema, name := dialect.SplitName(table)
	index := name + suffixIndex
	set := migrate.Set{
		FS:           Migrations,
		VersionTable: table + suffixSchema,
		Rename: map[string]string{
			DefaultTable:                   table,
			DefaultTable + suffixIndex:     index,
			DefaultTable + suffixSchema:    table + suffixSchema,
			DefaultTable + suffixSequences: table + suffixSequences,
		},
		Tables: []migrate.Table{{
			Name:    table,
			Columns: []string{columnConsumer, columnEventID, "processed_at"},
			Indexes: map[string][]string{"postgres": {index}, "mysql": {index}, "sqlite": {index}},
		}, {
			Name:    table + suffixSequences,
			Columns: []string{columnConsumer, "stream", "number", "updated_at"},
		}},
		Verify: func(ctx context.Context, d dialect.Dialect, q dialect.Queryer) ([]string, error) {
			return verifyKey(ctx, d, q, table)
		},
	}
	if d.Name() == "sqlite" && schema != "" {
		// CREATE INDEX wants the schema before the index there, not before the table.
		set.Rename[DefaultTable+suffixIndex] = schema + "." + index
		set.Replace = map[string]string{"ON " + d.Quote(DefaultTable): "ON " + d.Quote(name)}
	}
	return set
}
