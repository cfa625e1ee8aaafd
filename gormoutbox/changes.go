package gormoutbox

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
}

// rowKey is the primary key of a value.
type rowKey struct {
	identity string
	values   []any
	zero     []bool // of the parts
}

// set says whether every part of the key is set.
func (k rowKey) set() bool { return !slices.Contains(k.zero, true) }

// emitChanges turns changes into events and writes them with one INSERT.
func (in *instance) emitChanges(db *gorm.DB, c *capture, changes []change) error {
	ctx := db.Statement.Context
	rows := make([]row, 0, len(changes))
	for _, ch := range changes {
		if !c.model.emits(ch.kind) {
			continue
		}
		r, err := in.eventOf(db, c, ch)
		if errors.Is(err, ErrNoEvent) {
			continue
		}
		if err != nil {
			return err
		}
		if err := in.finish(ctx, &r, nil); err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := in.write(ctx, db, db.Statement.ConnPool, rows); err != nil {
		return err
	}
	c.written = len(rows)
	return nil
}

func (in *instance) eventOf(db *gorm.DB, c *capture, ch change) (row, error) {
	m := c.model
	id, err := m.aggregateID(db.Statement.Context, ch.row)
	if err != nil {
		return row{}, err
	}
	e := Event{AggregateType: m.aggregate, AggregateID: id, Type: m.typeOf(ch.kind), Topic: m.topic, Version: m.version}
	if in.config.Marshal == nil {
		e.Payload, err = m.payload(ch.row)
	} else {
		var payload []byte
		payload, err = in.config.Marshal(db.Statement.Context, Change{
			Kind: ch.kind, AggregateType: m.aggregate, AggregateID: id, EventType: e.Type,
			Table: db.Statement.Table, Model: ch.row.Addr().Interface(), Changed: c.changed,
		})
		e.Payload = payload
		if err == nil && payload == nil {
			return row{}, &EventError{Field: "Payload", Cause: "Config.Marshal returned nil", Cure: "return ErrNoEvent for no event, or []byte{} for an empty payload"}
		}
	}
	if err != nil {
		return row{}, err
	}
	r, err := e.toRow()
	if err != nil {
		return row{}, err
	}
	if len(c.changed) > 0 && ch.kind == Updated {
		r.headers[HeaderChanged] = strings.Join(c.changed, ",")
	}
	return r, nil
}

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
				return nil, "the list has a nil value"
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

// maxKeys is how many keys one read back has in its IN list.
const maxKeys = 500

// readOptions say which rows a read by key sees.
type readOptions struct {
	unscoped bool // soft-deleted ones too
	lock     bool
}

// read returns the rows with these keys as the database has them, by identity.
// It runs in the statement's transaction, on its table, without the model's hooks.
func (in *instance) read(db *gorm.DB, m *model, keys []rowKey, o readOptions) (map[string]rowValue, error) {
	stmt := db.Statement
	found := make(map[string]rowValue, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), maxKeys)
		values := make([][]any, n)
		for i, k := range keys[:n] {
			values[i] = k.values
		}
		keys = keys[n:]
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
		if o.lock && in.dialect.ForUpdate() != "" {
			tx = tx.Clauses(clause.Locking{Strength: "UPDATE"})
		}
		names := make([]string, len(m.primary))
		for i, f := range m.primary {
			names[i] = f.DBName
		}
		column, args := schema.ToQueryValues(clause.CurrentTable, names, values)
		if err := tx.Where(clause.IN{Column: column, Values: args}).Find(dest.Interface()).Error; err != nil {
			return nil, fmt.Errorf("gormoutbox: reading the rows of %s back: %w", m.name, err)
		}
		for i := range dest.Elem().Len() {
			rv := dest.Elem().Index(i)
			k, err := m.primaryKey(stmt.Context, rv)
			if err != nil {
				return nil, err
			}
			found[k.identity] = rowValue{k.identity, rv}
		}
	}
	return found, nil
}

// match lists the rows that were found in the order of the keys, each once. It is not ok if
// one is left over: the database may compare keys otherwise than Go does (letter case,
// padding). A single row is the one that was meant all the same.
func match(keys []rowKey, found map[string]rowValue, kind Kind) (out []change, ok bool) {
	out = make([]change, 0, len(found))
	if len(keys) == 1 && len(found) == 1 {
		for _, rv := range found {
			return append(out, change{rv, kind}), true
		}
	}
	listed := make(map[string]bool, len(found))
	for _, k := range keys {
		if rv, there := found[k.identity]; there && !listed[k.identity] {
			listed[k.identity] = true
			out = append(out, change{rv, kind})
		}
	}
	return out, len(out) == len(found)
}
