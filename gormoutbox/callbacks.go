package gormoutbox

import (
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// anchor is the place of a callback between two of GORM's. Both names are
// needed: a callback with After alone is sorted to the end of the chain, behind
// the commit.
type anchor struct{ after, before string }

// emitAnchors are the places between the write and the writes of associations,
// so that events of parents stand before those of their children.
var emitAnchors = map[string]anchor{
	"create": {"gorm:create", "gorm:save_after_associations"},
	"update": {"gorm:update", "gorm:save_after_associations"},
	"delete": {"gorm:delete", "gorm:after_delete"},
}

// registerCallbacks puts four callbacks into each chain: begin (is it ours, can it be captured, is there a
// transaction), check (what must be known before the write), emit, and end.
func (in *instance) registerCallbacks(db *gorm.DB, emit map[string]anchor) error {
	type registration struct {
		step string
		at   anchor
		fn   func(*gorm.DB)
	}
	cb := db.Callback()
	var errs []error
	register := func(op string, r registration) {
		name := in.config.Name + ":" + r.step + "_" + op
		var err error
		// An empty anchor is none. The processors' type is not exported, hence the three calls.
		switch op {
		case "create":
			err = cb.Create().After(r.at.after).Before(r.at.before).Register(name, r.fn)
		case "update":
			err = cb.Update().After(r.at.after).Before(r.at.before).Register(name, r.fn)
		default:
			err = cb.Delete().After(r.at.after).Before(r.at.before).Register(name, r.fn)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("gormoutbox: registering callback %s: %w", name, err))
		}
	}
	for _, op := range []struct {
		name         string
		firstHook    string // the first callback behind gorm:begin_transaction
		associations string
		write        string
		check        func(*gorm.DB, *capture) error
		rows         func(*gorm.DB, *capture) ([]change, error)
	}{
		{"create", "gorm:before_create", "gorm:save_before_associations", "gorm:create", in.checkCreate, in.created},
		{"update", "gorm:setup_reflect_value", "gorm:save_before_associations", "gorm:update", in.checkUpdate, in.updated},
		{"delete", "gorm:before_delete", "gorm:delete_before_associations", "gorm:delete", in.checkDelete, in.deleted},
	} {
		register(op.name, registration{"begin", anchor{before: op.firstHook}, in.begin(op.name)})
		register(op.name, registration{"check", anchor{op.associations, op.write}, in.check(op.check)})
		register(op.name, registration{"emit", emit[op.name], in.emit(op.rows)})
		register(op.name, registration{"end", anchor{}, in.end})
	}
	return errors.Join(errs...)
}

// capture is what the callbacks of one statement know.
type capture struct {
	model *model
	op    string
	// base is the pool to go back to if the transaction is ours, else nil.
	base gorm.ConnPool
	// keys are the primary keys known before the write, in the order of the user's values.
	keys []rowKey
	// auto says that the database makes the keys.
	auto   bool
	upsert bool
	// set says that we computed the SET clause and have to remove it.
	set     bool
	changed []string
	// last are the rows before a delete.
	last    []change
	written int
}

type captureKey struct{ stmt *gorm.Statement }

func captureOf(db *gorm.DB) *capture {
	c, ok := db.Statement.Settings.Load(captureKey{db.Statement})
	if !ok {
		return nil
	}
	return c.(*capture)
}

// begin decides whether the statement is to be captured, refuses what can be
// seen to be impossible before anything is written, and makes sure of a transaction.
func (in *instance) begin(op string) func(*gorm.DB) {
	return func(db *gorm.DB) {
		stmt := db.Statement
		if db.Error != nil || db.DryRun || ignored(stmt.Context) {
			return
		}
		var m *model
		if stmt.Schema != nil {
			var err error
			if m, err = in.model(stmt.Schema); err != nil {
				_ = db.AddError(err)
				return
			}
		}
		if m == nil {
			if owner, ok := in.byTable.Load(stmt.Table); ok {
				_ = db.AddError(&CaptureError{
					Op: op, Model: modelName(stmt), Table: stmt.Table,
					Cause: "the table belongs to the annotated model " + owner.(*model).name + " and the write bypasses it",
					Cure:  "write through the model, or use gormoutbox.Ignore(ctx) to write without an event",
				})
			}
			return
		}
		if !m.captures(op) {
			return
		}
		c := &capture{model: m, op: op}
		if _, ok := stmt.ConnPool.(gorm.TxCommitter); !ok {
			tx := db.Begin()
			if tx.Error != nil {
				_ = db.AddError(fmt.Errorf("gormoutbox: beginning a transaction: %w", tx.Error))
				return
			}
			c.base = stmt.ConnPool
			stmt.ConnPool = tx.Statement.ConnPool
		}
		stmt.Settings.Store(captureKey{stmt}, c)
	}
}

func modelName(stmt *gorm.Statement) string {
	if stmt.Schema == nil {
		return ""
	}
	return stmt.Schema.ModelType.String()
}

// captures says whether a statement of this kind can produce an event. A create may turn out an upsert.
func (m *model) captures(op string) bool {
	switch op {
	case "create":
		return m.emits(Created) || m.emits(Upserted)
	case "update":
		return m.emits(Updated)
	default:
		return m.emits(Deleted)
	}
}

func (in *instance) check(fn func(*gorm.DB, *capture) error) func(*gorm.DB) {
	return func(db *gorm.DB) {
		c := captureOf(db)
		if c == nil || db.Error != nil {
			return
		}
		if err := recovered(func() error { return fn(db, c) }); err != nil {
			_ = db.AddError(err)
		}
	}
}

// emit writes the events of the statement. If that fails the row must not stay.
func (in *instance) emit(rows func(*gorm.DB, *capture) ([]change, error)) func(*gorm.DB) {
	return func(db *gorm.DB) {
		c := captureOf(db)
		if c == nil {
			return
		}
		if c.set {
			delete(db.Statement.Clauses, "SET")
		}
		if db.Error != nil || db.RowsAffected == 0 {
			return
		}
		err := recovered(func() error {
			if _, ok := db.Statement.ConnPool.(gorm.TxCommitter); !ok {
				return in.fail(db, c, "the plugin's callback came outside of the transaction: another plugin removed or replaced GORM's callbacks",
					"register the plugin after the other one, or write inside db.Transaction")
			}
			changes, err := rows(db, c)
			if err != nil {
				return err
			}
			return in.emitChanges(db, c, changes)
		})
		if err == nil {
			return
		}
		_, started := db.InstanceGet("gorm:started_transaction")
		if c.base == nil && !started {
			err = errors.Join(err, poison(db.Statement.ConnPool))
		}
		_ = db.AddError(err)
	}
}

// end ends a transaction of ours and wakes the relays.
func (in *instance) end(db *gorm.DB) {
	c := captureOf(db)
	if c == nil {
		return
	}
	stmt := db.Statement
	stmt.Settings.Delete(captureKey{stmt})
	_, committed := db.InstanceGet("gorm:started_transaction")
	if c.base != nil {
		tx := stmt.ConnPool.(gorm.TxCommitter)
		stmt.ConnPool = c.base
		if db.Error != nil {
			if err := tx.Rollback(); err != nil {
				_ = db.AddError(fmt.Errorf("gormoutbox: rolling back: %w", err))
			}
			return
		}
		if err := tx.Commit(); err != nil {
			_ = db.AddError(fmt.Errorf("gormoutbox: committing: %w", err))
			return
		}
		committed = true
	}
	if c.written > 0 && db.Error == nil {
		in.plugin.hub.wake(committed)
	}
}

// fail is an error about a write that has been made and must be undone.
func (in *instance) fail(db *gorm.DB, c *capture, cause, cure string) error {
	return &CaptureError{Op: c.op, Model: c.model.name, Table: db.Statement.Table, Cause: cause, Cure: cure}
}

// recovered turns a panic of fn into an error: a panic in a callback would leak
// the connection and its locks. The value is not printed, as it may hold data of the row.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("gormoutbox: panic while capturing, of type %T; mend the marshaller or function of Config that panicked", p)
			if e, ok := p.(error); ok && isRuntime(e) {
				err = fmt.Errorf("gormoutbox: panic while capturing: %w", e)
			}
		}
	}()
	return fn()
}
