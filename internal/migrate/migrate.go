// Package migrate applies numbered SQL files once and checks that a schema is
// what the code expects. It serves gormoutbox and dedup.
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Set is a set of migrations together with what must be there afterwards.
type Set struct {
	// FS has a folder a dialect with files named NNNN_what.sql.
	FS fs.FS
	// VersionTable is the configured name of the table that records the applied numbers.
	VersionTable string
	// Rename maps every name in the files (tables and indexes) to the configured one. A table's
	// name may be schema-qualified.
	Rename map[string]string
	// Replace maps other texts in the files, such as a count, to what is configured.
	Replace map[string]string
	// Tables is what Check looks for.
	Tables []Table
	// Verify makes further checks of a dialect, on tables that Check found complete.
	Verify func(ctx context.Context, d dialect.Dialect, q dialect.Queryer) ([]string, error)
}

// Table is what Check expects of one table. Names are configured names.
type Table struct {
	Name    string
	Columns []string
	Indexes map[string][]string // by dialect
}

// file is one numbered migration.
type file struct {
	version int
	name    string
	text    string
}

// Up applies the migrations that the database lacks. Processes that call it at
// once wait for each other.
func Up(ctx context.Context, db *gorm.DB, set Set) error {
	d, err := dialect.For(db)
	if err != nil {
		return err
	}
	files, err := set.files(d)
	if err != nil {
		return err
	}
	sqlDB, err := db.DB()
	if err != nil {
		return fmt.Errorf("getting the connection pool: %w", err)
	}
	return d.Lock(ctx, sqlDB, set.VersionTable, func(q dialect.Queryer) error {
		have, err := set.version(ctx, d, q)
		if err != nil {
			return err
		}
		if latest := files[len(files)-1].version; have > latest {
			return &Mismatch{Problems: []string{newer(set.VersionTable, have, latest)}}
		}
		for _, f := range files {
			if f.version <= have {
				continue
			}
			for _, stmt := range split(f.text) {
				if _, err := q.ExecContext(ctx, stmt); err != nil {
					return fmt.Errorf("applying %s: %w", f.name, err)
				}
			}
		}
		err = set.check(ctx, d, q)
		if m, ok := errors.AsType[*Mismatch](err); ok {
			m.Recorded = set.VersionTable
		}
		return err
	})
}

// Mismatch lists all differences between the schema and what the code expects.
type Mismatch struct {
	Problems []string
	// Recorded is the version table if it says that all migrations were applied, so that
	// migrating again would change nothing.
	Recorded string
}

// Cure says what to do, given the name of the package whose Migrate it is.
func (m *Mismatch) Cure(pkg string) string {
	if m.Recorded != "" {
		return m.Recorded + " says that all migrations were applied: restore what is missing, or drop the tables and that one and migrate again"
	}
	return "run " + pkg + ".Migrate or apply the files of " + pkg + ".Migrations"
}

// Error implements error.
func (m *Mismatch) Error() string { return strings.Join(m.Problems, "; ") }

// Check compares the schema with what the code expects. The error is a
// *Mismatch if the schema differs, something else if it can't be read.
func Check(ctx context.Context, db *gorm.DB, set Set) error {
	d, err := dialect.For(db)
	if err != nil {
		return err
	}
	sqlDB, err := db.DB()
	if err != nil {
		return fmt.Errorf("getting the connection pool: %w", err)
	}
	return set.check(ctx, d, sqlDB)
}

func (set Set) check(ctx context.Context, d dialect.Dialect, q dialect.Queryer) error {
	var problems []string
	for _, t := range set.Tables {
		found, err := t.check(ctx, d, q)
		if err != nil {
			return err
		}
		problems = append(problems, found...)
	}
	if len(problems) == 0 {
		files, err := set.files(d)
		if err != nil {
			return err
		}
		have, err := set.version(ctx, d, q)
		if err != nil {
			return err
		}
		switch latest := files[len(files)-1].version; {
		case have > latest:
			problems = append(problems, newer(set.VersionTable, have, latest))
		case have < latest:
			problems = append(problems, fmt.Sprintf("%s says version %d and this code needs %d", set.VersionTable, have, latest))
		}
	}
	if len(problems) == 0 && set.Verify != nil {
		found, err := set.Verify(ctx, d, q)
		if err != nil {
			return err
		}
		problems = found
	}
	if len(problems) > 0 {
		return &Mismatch{Problems: problems}
	}
	return nil
}

func newer(table string, have, latest int) string {
	return fmt.Sprintf("%s says version %d and this code knows up to %d: update the library", table, have, latest)
}

func (t Table) check(ctx context.Context, d dialect.Dialect, q dialect.Queryer) (problems []string, err error) {
	columns, err := d.Columns(ctx, q, t.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the columns of %s: %w", t.Name, err)
	}
	if len(columns) == 0 {
		return []string{"table " + t.Name + " is missing"}, nil
	}
	for _, want := range t.Columns {
		if !slices.ContainsFunc(columns, func(c dialect.Column) bool { return strings.EqualFold(c.Name, want) }) {
			problems = append(problems, "column "+t.Name+"."+want+" is missing")
		}
	}
	indexes, err := d.Indexes(ctx, q, t.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the indexes of %s: %w", t.Name, err)
	}
	for _, want := range t.Indexes[d.Name()] {
		if !slices.ContainsFunc(indexes, func(have string) bool { return strings.EqualFold(have, want) }) {
			problems = append(problems, "index "+want+" on "+t.Name+" is missing")
		}
	}
	return problems, nil
}

// version is the highest applied number, 0 without a version table.
func (set Set) version(ctx context.Context, d dialect.Dialect, q dialect.Queryer) (v int, err error) {
	columns, err := d.Columns(ctx, q, set.VersionTable)
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", set.VersionTable, err)
	}
	if len(columns) == 0 {
		return 0, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM "+d.Quote(set.VersionTable))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", set.VersionTable, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		if err := rows.Scan(&v); err != nil {
			return 0, fmt.Errorf("reading %s: %w", set.VersionTable, err)
		}
	}
	return v, rows.Err()
}

// files are the migrations of the dialect in order, with the configured names.
func (set Set) files(d dialect.Dialect) ([]file, error) {
	names, err := fs.Glob(set.FS, d.Name()+"/*.sql")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no migrations for %s: %w", d.Name(), cmp.Or(err, fs.ErrNotExist))
	}
	r := set.replacer(d)
	files := make([]file, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(set.FS, name)
		if err != nil {
			return nil, fmt.Errorf("reading migration: %w", err)
		}
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		files = append(files, file{version: version, name: name, text: r.Replace(string(text))})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.version, b.version) })
	return files, nil
}

// replacer exchanges names only where they stand in the dialect's quotes.
func (set Set) replacer(d dialect.Dialect) *strings.Replacer {
	pairs := make([]string, 0, 2*(len(set.Rename)+len(set.Replace)))
	for from, to := range set.Rename {
		pairs = append(pairs, d.Quote(from), d.Quote(to))
	}
	for from, to := range set.Replace {
		pairs = append(pairs, from, to)
	}
	return strings.NewReplacer(pairs...)
}

// split cuts a file into statements, each of which ends with ";" at the end of a line.
func split(text string) []string {
	var out []string
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		b.WriteString(line)
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			out = append(out, strings.TrimSuffix(strings.TrimSpace(b.String()), ";"))
			b.Reset()
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" {
		out = append(out, rest)
	}
	return out
}
