package gormoutbox

import (
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// capture is what the callbacks of one statement know.
type capture struct {
	stmt  *gorm.Statement
	model *model
	op    string
	// own is the transaction that plugins of this package opened, nil in GORM's or the user's.
	own *ownTx
	// rows tells after the write what it did, nil if the statement can't write a row.
	rows func(*gorm.DB, *capture) ([]change, error)
	// scan takes the rows that the statement returns, nil if it returns none to us.
	scan *redirect
	// shared says that another instance of the plugin made it, and looks after the user's values.
	shared bool
	// keys are the primary keys known before the write, in the order of the user's values.
	keys []rowKey
	// conflict says that rows whose key was set may have been there before.
	conflict bool
	// counted says that keys which GORM derives from LAST_INSERT_ID are right.
	counted bool
	// held are the rows that were read, and locked, before the write, in the order of the database.
	held []rowValue
	// narrowed says that the statement's conditions are now those that held was read by, and its keys.
	narrowed bool
	// changed are the columns that the statement assigns, without excluded ones.
	changed []string
	// moves says that an update assigns a column of the aggregate id, rekeys one of the primary key.
	moves, rekeys bool
	// undo puts back what we changed in the statement.
	undo []func()
	// tx is the transaction that the events were written in.
	tx gorm.ConnPool
	// recorders are the user's values that have recorded events.
	recorders []*Recorder
	// written are the events that were written.
	written int
}

// captureOf finds the capture of a statement. It is asked three times for each
// statement of the process, hence the key that needs no allocation: the instance, as several
// plugins may capture one statement. Statements of associations inherit their owner's settings.
func (in *instance) captureOf(db *gorm.DB) *capture {
	if in.live.Load() == 0 || in.plain.has(db.Statement) {
		return nil
	}
	found, ok := db.Statement.Settings.Load(in)
	if !ok {
		return nil
	}
	c := found.(*capture)
	if c.stmt != db.Statement {
		return nil
	}
	return c
}

// later notes what is to be put back in the statement once it was executed.
func (c *capture) later(fn func()) { c.undo = append(c.undo, fn) }

// restore puts the statement back, in the reverse order.
func (c *capture) restore() {
	for i := len(c.undo) - 1; i >= 0; i-- {
		c.undo[i]()
	}
	c.undo = nil
}

// setClause changes a clause of the statement until it was executed.
func (c *capture) setClause(name string, expr clause.Expression) {
	old, had := c.stmt.Clauses[name]
	now := old
	now.Name, now.Expression = name, expr
	c.stmt.Clauses[name] = now
	c.later(func() {
		if had {
			c.stmt.Clauses[name] = old
		} else {
			delete(c.stmt.Clauses, name)
		}
	})
}

// redirect is a RETURNING clause that asks for the whole rows and, once the
// text of the statement is made, lets GORM scan them into a slice of ours: the
// user's values stay as they are. It has to happen that late, as the statement is made from the same
// value that GORM scans into.
type redirect struct {
	columns string
	rows    reflect.Value // an addressable slice of the model's type

	value reflect.Value
	dest  any
	on    bool
}

// Build implements clause.Expression.
func (r *redirect) Build(b clause.Builder) {
	_, _ = b.WriteString(r.columns) // to a strings.Builder, which can't fail
	if stmt, ok := b.(*gorm.Statement); ok && !r.on {
		r.value, r.dest, r.on = stmt.ReflectValue, stmt.Dest, true
		stmt.ReflectValue, stmt.Dest = r.rows, r.rows.Addr().Interface()
	}
}

// redirected adds the clause to the statement. n is how many rows are expected, 0 if that is not known.
func (in *instance) redirected(db *gorm.DB, c *capture, n int) error {
	if c.scan, c.shared = db.Statement.Clauses["RETURNING"].Expression.(*redirect); c.shared {
		return nil
	}
	columns, err := in.returningColumns(db, c.model)
	if err != nil {
		return err
	}
	rows := reflect.New(reflect.SliceOf(c.model.schema.ModelType)).Elem()
	if n > 0 {
		rows.Set(reflect.MakeSlice(rows.Type(), 0, n))
	}
	r := &redirect{columns: columns, rows: rows}
	c.scan = r
	c.setClause("RETURNING", r)
	c.later(func() {
		if r.on {
			c.stmt.ReflectValue, c.stmt.Dest, r.on = r.value, r.dest, false
		}
	})
	return nil
}

// returned are the rows that the statement returned.
func (c *capture) returned(m *model) ([]rowValue, error) {
	rows := make([]rowValue, c.scan.rows.Len())
	for i := range rows {
		rv := c.scan.rows.Index(i)
		k, err := m.primaryKey(c.stmt.Context, rv)
		if err != nil {
			return nil, err
		}
		rows[i] = rowValue{k.identity, rv}
	}
	return rows, nil
}
