package gormoutbox

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// columns are the columns that a RETURNING clause asks for.
type columns struct {
	names []string
	// bare is the list without the table's name, quoted.
	bare string
}

// newColumns lists the readable fields of a model without those that are absent.
func newColumns(db *gorm.DB, s *schema.Schema, absent map[string]bool) *columns {
	c := &columns{}
	var b strings.Builder
	for _, f := range s.Fields {
		if !inRow(f) || absent[f.DBName] || slices.Contains(c.names, f.DBName) {
			continue
		}
		if len(c.names) > 0 {
			b.WriteByte(',')
		}
		c.names = append(c.names, f.DBName)
		b.WriteString(db.Statement.Quote(clause.Column{Name: f.DBName}))
	}
	c.bare = b.String()
	return c
}

// returningColumns is the text of a RETURNING clause. The columns are named one by one: with "*" a
// statement that the driver has prepared fails after each ALTER TABLE.
func (in *instance) returningColumns(db *gorm.DB, m *model) (string, error) {
	c, err := in.columnsOf(db, m)
	if err != nil {
		return "", err
	}
	if _, joined := db.Statement.Clauses["FROM"]; !joined {
		return c.bare, nil
	}
	// UPDATE … FROM: another table may have columns of the same name.
	quoted := make([]string, len(c.names))
	for i, name := range c.names {
		quoted[i] = db.Statement.Quote(clause.Column{Table: clause.CurrentTable, Name: name})
	}
	return strings.Join(quoted, ","), nil
}

// columnsOf returns the columns of the model. Whether a field that GORM never
// writes is a generated column, or only filled by some queries, is asked of the database, once.
func (in *instance) columnsOf(db *gorm.DB, m *model) (*columns, error) {
	if c := m.columns.Load(); c != nil {
		return c, nil
	}
	var absent map[string]bool
	if m.readOnly {
		stmt := db.Statement
		there, err := in.dialect.Columns(stmt.Context, unprepared(stmt.ConnPool), tableName(stmt))
		if err != nil {
			return nil, fmt.Errorf("gormoutbox: reading the columns of %s: %w", stmt.Table, err)
		}
		absent = map[string]bool{}
		for _, f := range m.schema.Fields {
			if neverWritten(f) && !slices.ContainsFunc(there, func(c dialect.Column) bool { return strings.EqualFold(c.Name, f.DBName) }) {
				absent[f.DBName] = true
			}
		}
		if m.projection.Load() != nil {
			b := &projectionBuilder{model: m.name, schema: m.schema, absent: absent}
			m.projection.Store(b.build(m.schema.ModelType, nil, true))
		}
	}
	c := newColumns(db, m.schema, absent)
	m.columns.Store(c)
	return c, nil
}

// neverWritten says whether GORM only reads the field.
func neverWritten(f *schema.Field) bool {
	return inRow(f) && !f.Creatable && !f.Updatable && !f.PrimaryKey
}

// tableName is the table of the statement with its schema.
func tableName(stmt *gorm.Statement) string {
	if stmt.TableExpr == nil && stmt.Schema != nil && stmt.Table == stmt.Schema.Table {
		return stmt.Schema.Table
	}
	return writtenTable(stmt)
}
