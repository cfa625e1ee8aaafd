package plugins_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// The modules of the plugins optimisticlock, soft_delete and sharding can't be
// downloaded where this project is checked. What follows stands in for them: it
// does to GORM what they do, as far as the outbox can notice.

// Version is a column that an update counts up and compares, as that of optimisticlock.
type Version sql.NullInt64

// Scan implements sql.Scanner.
func (v *Version) Scan(src any) error { return (*sql.NullInt64)(v).Scan(src) }

// Value implements driver.Valuer.
func (v Version) Value() (driver.Value, error) { return sql.NullInt64(v).Value() }

// MarshalJSON implements json.Marshaler.
func (v Version) MarshalJSON() ([]byte, error) { return json.Marshal(v.Int64) }

// CreateClauses implements schema.CreateClausesInterface.
func (*Version) CreateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{modifier(func(s *gorm.Statement) {
		first := func(row reflect.Value) {
			if _, zero := f.ValueOf(s.Context, row); zero {
				_ = s.AddError(f.Set(s.Context, row, int64(1)))
			}
		}
		switch s.ReflectValue.Kind() {
		case reflect.Slice, reflect.Array:
			for i := range s.ReflectValue.Len() {
				first(reflect.Indirect(s.ReflectValue.Index(i)))
			}
		case reflect.Struct:
			first(s.ReflectValue)
		default:
		}
	})}
}

// UpdateClauses implements schema.UpdateClausesInterface.
func (*Version) UpdateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{modifier(func(s *gorm.Statement) {
		if _, done := s.Clauses["version_enabled"]; done {
			return
		}
		s.Clauses["version_enabled"] = clause.Clause{}
		if value, zero := f.ValueOf(s.Context, s.ReflectValue); !zero && !s.Unscoped {
			s.AddClause(clause.Where{Exprs: []clause.Expression{clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: f.DBName}, Value: value}}})
		}
		// An expression has no place in a struct.
		if dest := reflect.Indirect(reflect.ValueOf(s.Dest)); dest.Kind() == reflect.Struct {
			selected, restricted := s.SelectAndOmitColumns(false, true)
			values := map[string]any{}
			for _, column := range s.Schema.Fields {
				if column.DBName == "" || column == f || column.PrimaryKey || !column.Updatable {
					continue
				}
				on, known := selected[column.DBName]
				if value, zero := column.ValueOf(s.Context, dest); known && on || !known && !restricted && !zero {
					values[column.DBName] = value
				}
			}
			s.Dest = values
		}
		s.SetColumn(f.DBName, gorm.Expr(s.Quote(f.DBName)+"+1"), true)
	})}
}

// modifier is a clause that changes its statement.
type modifier func(*gorm.Statement)

func (modifier) Name() string                        { return "" }
func (modifier) Build(clause.Builder)                {}
func (modifier) MergeClause(*clause.Clause)          {}
func (m modifier) ModifyStatement(s *gorm.Statement) { m(s) }

// DeletedAt marks deleted rows by a number, as that of soft_delete: 1 with the setting flag, else
// the Unix time, in milliseconds with the setting milli. DeletedAtField names a column for the time beside the flag.
type DeletedAt uint

// QueryClauses implements schema.QueryClausesInterface.
func (DeletedAt) QueryClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{modifier(func(s *gorm.Statement) { active(s, f) })}
}

// UpdateClauses implements schema.UpdateClausesInterface.
func (DeletedAt) UpdateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{modifier(func(s *gorm.Statement) {
		if s.SQL.Len() == 0 {
			active(s, f)
		}
	})}
}

// active leaves out the rows that are deleted.
func active(s *gorm.Statement, f *schema.Field) {
	if _, done := s.Clauses["soft_delete_enabled"]; done || s.Unscoped {
		return
	}
	s.AddClause(clause.Where{Exprs: []clause.Expression{clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: f.DBName}, Value: 0}}})
	s.Clauses["soft_delete_enabled"] = clause.Clause{}
}

// DeleteClauses implements schema.DeleteClausesInterface.
func (DeletedAt) DeleteClauses(f *schema.Field) []clause.Interface {
	settings := schema.ParseTagSetting(f.TagSettings["SOFTDELETE"], ",")
	return []clause.Interface{modifier(func(s *gorm.Statement) {
		if s.SQL.Len() > 0 || s.Unscoped {
			return
		}
		now := s.DB.NowFunc()
		value := now.Unix()
		switch {
		case settings["FLAG"] != "":
			value = 1
		case settings["MILLI"] != "":
			value = now.UnixMilli()
		}
		set := clause.Set{{Column: clause.Column{Name: f.DBName}, Value: value}}
		s.SetColumn(f.DBName, value, true)
		if at := f.Schema.LookUpField(settings["DELETEDATFIELD"]); at != nil {
			set = append(set, clause.Assignment{Column: clause.Column{Name: at.DBName}, Value: now})
			s.SetColumn(at.DBName, now, true)
		}
		s.AddClause(set)
		_, keys := schema.GetIdentityFieldValuesMap(s.Context, s.ReflectValue, s.Schema.PrimaryFields)
		if column, values := schema.ToQueryValues(s.Table, s.Schema.PrimaryFieldDBNames, keys); len(values) > 0 {
			s.AddClause(clause.Where{Exprs: []clause.Expression{clause.IN{Column: column, Values: values}}})
		}
		active(s, f)
		s.AddClauseIfNotExists(clause.Update{})
		s.Build(s.DB.Callback().Update().Clauses...)
	})}
}

// newShards returns a plugin that, as sharding does, puts the rows of a table elsewhere by
// changing the text of statements, in a pool that always calls itself a transaction. There is one shard.
func newShards(table string) gorm.Plugin {
	return &shards{table: regexp.MustCompile(`\b` + table + `\b`), shard: table + "_1"}
}

type shards struct {
	table *regexp.Regexp
	shard string
}

func (*shards) Name() string { return "gorm:sharding" }

func (s *shards) Initialize(g *gorm.DB) error {
	wrap := func(db *gorm.DB) {
		if db.Statement.ConnPool != nil {
			db.Statement.ConnPool = &shardPool{ConnPool: db.Statement.ConnPool, shards: s}
		}
	}
	cb := g.Callback()
	for _, register := range []func() error{
		func() error { return cb.Create().Before("*").Register(s.Name(), wrap) },
		func() error { return cb.Query().Before("*").Register(s.Name(), wrap) },
		func() error { return cb.Update().Before("*").Register(s.Name(), wrap) },
		func() error { return cb.Delete().Before("*").Register(s.Name(), wrap) },
		func() error { return cb.Row().Before("*").Register(s.Name(), wrap) },
		func() error { return cb.Raw().Before("*").Register(s.Name(), wrap) },
	} {
		if err := register(); err != nil {
			return err
		}
	}
	return nil
}

func (s *shards) resolve(query string) string {
	// The parser of sharding knows no FOR UPDATE, and what it can't parse goes to the database as it is.
	if strings.Contains(query, "outbox_") || strings.HasSuffix(query, "FOR UPDATE") {
		return query
	}
	return s.table.ReplaceAllString(query, s.shard)
}

type shardPool struct {
	gorm.ConnPool
	shards *shards
}

func (p shardPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.ConnPool.ExecContext(ctx, p.shards.resolve(query), args...)
}

func (p shardPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.ConnPool.QueryContext(ctx, p.shards.resolve(query), args...)
}

func (p shardPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.ConnPool.QueryRowContext(ctx, p.shards.resolve(query), args...)
}

// BeginTx implements gorm.ConnPoolBeginner, and begins nothing on a *sql.DB.
func (p *shardPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if inner, ok := p.ConnPool.(gorm.ConnPoolBeginner); ok {
		return inner.BeginTx(ctx, opts)
	}
	return p, nil
}

// Commit implements gorm.TxCommitter.
func (p *shardPool) Commit() error { return p.end(gorm.TxCommitter.Commit) }

// Rollback implements gorm.TxCommitter.
func (p *shardPool) Rollback() error { return p.end(gorm.TxCommitter.Rollback) }

func (p *shardPool) end(how func(gorm.TxCommitter) error) error {
	if _, ok := p.ConnPool.(*sql.Tx); ok {
		return nil // that of whoever began it
	}
	if inner, ok := p.ConnPool.(gorm.TxCommitter); ok {
		return how(inner)
	}
	return nil
}
