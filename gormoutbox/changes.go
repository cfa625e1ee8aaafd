package gormoutbox

import (
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// rowValue is a row as the database has it.
type rowValue struct {
	identity string
	row      reflect.Value // addressable struct of the model's type
}

// change is one row that a statement wrote.
type change struct {
	rowValue
	kind Kind
	// before is the row before an update, if it was read, and changed the columns that differ.
	before  reflect.Value
	changed []string
	// previousID is the aggregate id before an update that changed it.
	previousID string
	// soft says that a deleted row is still in its table.
	soft bool
}

// rowKey is the primary key of a value.
type rowKey struct {
	identity string
	values   []any
	zero     []bool // of the parts
}

// set says whether every part of the key is set.
func (k rowKey) set() bool { return !slices.Contains(k.zero, true) }

// nilElement is the problem of a list with a nil value.
const nilElement = "the list has a nil value"

// elements lists the values of the model in the statement's value, or says why it is of another kind.
func (m *model) elements(rv reflect.Value) (out []reflect.Value, problem string) {
	switch rv.Kind() {
	case reflect.Struct:
		out = []reflect.Value{rv}
	case reflect.Slice, reflect.Array:
		out = make([]reflect.Value, 0, rv.Len())
		for i := range rv.Len() {
			e := reflect.Indirect(rv.Index(i))
			for e.IsValid() && (e.Kind() == reflect.Interface || e.Kind() == reflect.Pointer) {
				e = e.Elem()
			}
			if !e.IsValid() {
				return nil, nilElement
			}
			out = append(out, e)
		}
	default:
		return nil, "its value is of kind " + rv.Kind().String()
	}
	for _, e := range out {
		if e.Type() != m.schema.ModelType {
			return nil, "its value is or contains " + e.Type().String()
		}
	}
	return out, ""
}

// keysOf returns the keys of the elements and how many of them have every part
// set. A key that can't be that of an event is an error, at once.
func (m *model) keysOf(db *gorm.DB, elems []reflect.Value) (keys []rowKey, set int, err error) {
	keys = make([]rowKey, len(elems))
	for i, e := range elems {
		k, err := m.primaryKey(db.Statement.Context, e)
		if err == nil && k.set() {
			set++
			if m.annotation.key == "" {
				err = checkKey(k.identity)
			}
		}
		if err != nil {
			return nil, 0, err
		}
		keys[i] = k
	}
	return keys, set, nil
}

// maxKeys is how many keys one read back has in its IN list at most.
const maxKeys = 1000

// readOptions say which rows a read sees.
type readOptions struct {
	unscoped bool // soft-deleted ones too
	lock     bool
	again    bool // they were locked before, so this is only to see them as they are now
	bounded  bool // by the statement's ORDER BY and LIMIT, where an UPDATE has them
}

// read returns the rows with these keys as the database has them, in the order of the keys.
func (in *instance) read(db *gorm.DB, m *model, keys []rowKey, o readOptions) ([]rowValue, error) {
	found := make([]rowValue, 0, len(keys))
	const spare = 10 // for conditions that plugins add
	for part := range slices.Chunk(keys, min(maxKeys, (in.dialect.MaxParams()-spare)/len(m.primary))) {
		rows, err := in.find(db, m, in.keysIn(m, part), o)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return inOrder(keys, found), nil
}

// rowKeys are the keys of rows.
func (m *model) rowKeys(db *gorm.DB, rows []rowValue) (keys []rowKey, err error) {
	keys = make([]rowKey, len(rows))
	for i, rv := range rows {
		if keys[i], err = m.primaryKey(db.Statement.Context, rv.row); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// keysIn is the condition that a row has one of the keys.
func (in *instance) keysIn(m *model, keys []rowKey) clause.Expression {
	if len(keys) == 0 {
		return clause.Expr{SQL: "1 = 0"}
	}
	names := make([]string, len(m.primary))
	for i, f := range m.primary {
		names[i] = f.DBName
	}
	if len(names) > 1 && in.traits.NoTuples {
		either := make(anyOf, len(keys))
		for i, k := range keys {
			each := make(all, len(names))
			for j, name := range names {
				each[j] = clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: name}, Value: k.values[j]}
			}
			either[i] = each
		}
		return either
	}
	values := make([][]any, len(keys))
	for i, k := range keys {
		values[i] = k.values
	}
	column, args := schema.ToQueryValues(clause.CurrentTable, names, values)
	return clause.IN{Column: column, Values: args}
}

// find returns the rows that the condition matches. It runs in the statement's
// transaction, on its table, without the model's hooks.
func (in *instance) find(db *gorm.DB, m *model, condition clause.Expression, o readOptions) ([]rowValue, error) {
	stmt := db.Statement
	// NewDB and Context in one call: anything else clones the caller's statement.
	tx := db.Session(&gorm.Session{NewDB: true, Context: stmt.Context, SkipHooks: true, Logger: db.Logger})
	dest := reflect.New(reflect.SliceOf(m.schema.ModelType))
	tx = tx.Model(dest.Interface())
	// The table of the statement: a shard, or a schema of its own.
	tx.Statement.TableExpr, tx.Statement.Table = stmt.TableExpr, stmt.Table
	tx.Statement.ConnPool = unprepared(stmt.ConnPool)
	if o.unscoped {
		tx = tx.Unscoped()
	}
	// A pool that routes statements, as that of the sharding plugin, may not understand a lock.
	lock := o.lock || o.again && !pretends(stmt.ConnPool)
	if lock && in.dialect.ForUpdate() != "" {
		tx = tx.Clauses(clause.Locking{Strength: "UPDATE"})
	}
	if lock && in.traits.LockHint != "" {
		hinted := clause.Expr{SQL: stmt.Quote(stmt.Table) + in.traits.LockHint}
		if stmt.TableExpr != nil {
			hinted = clause.Expr{SQL: stmt.TableExpr.SQL + in.traits.LockHint, Vars: stmt.TableExpr.Vars}
		}
		tx.Statement.TableExpr = &hinted
	}
	if o.bounded && in.traits.Bounded {
		for _, name := range []string{"ORDER BY", "LIMIT"} {
			if cl, ok := stmt.Clauses[name]; ok {
				tx.Statement.Clauses[name] = cl
			}
		}
	}
	tx.Statement.AddClause(clause.Where{Exprs: []clause.Expression{condition}})
	if err := tx.Find(dest.Interface()).Error; err != nil {
		return nil, fmt.Errorf("gormoutbox: reading the rows of %s back: %w", m.name, err)
	}
	rows := make([]rowValue, dest.Elem().Len())
	for i := range rows {
		rv := dest.Elem().Index(i)
		k, err := m.primaryKey(stmt.Context, rv)
		if err != nil {
			return nil, err
		}
		rows[i] = rowValue{k.identity, rv}
	}
	return rows, nil
}

// byIdentity finds rows by their keys.
func byIdentity(rows []rowValue) map[string]rowValue {
	found := make(map[string]rowValue, len(rows))
	for _, rv := range rows {
		found[rv.identity] = rv
	}
	return found
}

// changesOf gives all rows one kind.
func changesOf(rows []rowValue, kind Kind) []change {
	out := make([]change, len(rows))
	for i, rv := range rows {
		out[i] = change{rowValue: rv, kind: kind}
	}
	return out
}

// inOrder lists the rows in the order of the keys, and then those whose keys are none of them: the database may
// compare keys otherwise than Go does (letter case, padding).
func inOrder(keys []rowKey, rows []rowValue) []rowValue {
	if len(keys) < 2 {
		return rows
	}
	at := make(map[string]int, len(keys))
	for i, k := range keys {
		if _, ok := at[k.identity]; !ok {
			at[k.identity] = i
		}
	}
	rank := func(rv rowValue) int {
		if i, ok := at[rv.identity]; ok {
			return i
		}
		return len(keys)
	}
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b rowValue) int { return rank(a) - rank(b) })
	return sorted
}
