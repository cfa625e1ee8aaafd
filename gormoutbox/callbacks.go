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

// registerCallbacks puts four callbacks into each chain: begin (is it ours, does it bypass a model), check (can
// it be captured, is there a transaction), emit, and end.
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
	}{
		{"create", "gorm:before_create", "gorm:save_before_associations", "gorm:create", in.checkCreate},
		{"update", "gorm:setup_reflect_value", "gorm:save_before_associations", "gorm:update", in.checkUpdate},
		{"delete", "gorm:before_delete", "gorm:delete_before_associations", "gorm:delete", in.checkDelete},
	} {
		register(op.name, registration{"begin", anchor{before: op.firstHook}, in.begin(op.name)})
		register(op.name, registration{"check", anchor{op.associations, op.write}, in.check(op.check)})
		register(op.name, registration{"emit", emit[op.name], in.emit})
		register(op.name, registration{"end", anchor{}, in.end})
	}
	return errors.Join(errs...)
}

// begin decides whether the statement is to be captured, and refuses writes that bypass a model.
func (in *instance) begin(op string) func(*gorm.DB) {
	return func(db *gorm.DB) {
		stmt := db.Statement
		if db.Error != nil || in.plain.free(stmt, in.owners.count.Load()) && tableInClause(stmt, op) == "" {
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
			in.refuseBypass(db, op)
			return
		}
		// A panic may have left one behind on a statement that is used again.
		stmt.Settings.Delete(in)
		if db.DryRun || ignored(stmt.Context) || !m.records && !m.captures(op, stmt) {
			return
		}
		in.live.Add(1)
		stmt.Settings.Store(in, &capture{stmt: stmt, model: m, op: op})
	}
}

// refuseBypass refuses a write of another model, or of none, to the table of an annotated one.
func (in *instance) refuseBypass(db *gorm.DB, op string) {
	known := in.owners.count.Load() // before the look
	owner := in.owners.of(db.Statement)
	table := db.Statement.Table
	if s := db.Statement.Schema; owner == nil && s != nil && db.Statement.TableExpr == nil && db.Statement.Table == s.Table {
		in.plain.add(s, known)
	}
	if other := tableInClause(db.Statement, op); owner == nil && other != "" {
		owner, table = in.owners.named(other), other
	}
	if owner == nil || db.DryRun || ignored(db.Statement.Context) {
		return
	}
	_ = db.AddError(&CaptureError{
		Op: op, Model: modelName(db.Statement), Table: table,
		Cause: "the table belongs to the annotated model " + owner.name + " and the write bypasses it",
		Cure:  "write through the model, or use gormoutbox.Ignore(ctx) to write without an event",
	})
}

func modelName(stmt *gorm.Statement) string {
	if stmt.Schema == nil {
		return ""
	}
	return stmt.Schema.ModelType.String()
}

// captures says whether a statement of this kind can produce an event.
func (m *model) captures(op string, stmt *gorm.Statement) bool {
	switch op {
	case "create":
		_, conflict := stmt.Clauses["ON CONFLICT"]
		return m.emits(Created) || conflict && m.emits(Upserted)
	case "update":
		return m.emits(Updated)
	default:
		return m.emits(Deleted)
	}
}

// check makes sure of a transaction and refuses what can't be captured, just
// before the write: a hook that fails or panics before has no transaction of ours to leak.
func (in *instance) check(fn func(*gorm.DB, *capture) error) func(*gorm.DB) {
	return func(db *gorm.DB) {
		c := in.captureOf(db)
		if c == nil || db.Error != nil {
			return
		}
		if c.recorders = recordersOf(c); len(c.recorders) == 0 && !c.model.captures(c.op, db.Statement) {
			return
		}
		err := in.join(db, c)
		if err == nil {
			err = recovered(func() error {
				if db.Statement.SQL.Len() > 0 {
					return in.fail(db, c, "its SQL was made before", "let GORM build the statement")
				}
				if err := in.checkClauses(db, c); err != nil {
					return err
				}
				if _, err := in.columnsOf(db, c.model); err != nil {
					return err
				}
				return fn(db, c)
			})
		}
		if err != nil {
			c.restore()
			_ = db.AddError(err)
			in.leave(db, c)
		}
	}
}

// emit writes the events of the statement. If that fails the row must not stay.
func (in *instance) emit(db *gorm.DB) {
	c := in.captureOf(db)
	if c == nil {
		return
	}
	c.restore()
	c.tx = unprepared(db.Statement.ConnPool)
	defer in.leave(db, c)
	if db.Error != nil {
		in.failed(db, c)
		return
	}
	if c.rows == nil || db.RowsAffected == 0 && (len(c.held) == 0 || len(c.recorders) == 0) {
		return
	}
	err := recovered(func() error {
		if _, ok := transactionOf(db.Statement.ConnPool); !ok {
			return in.fail(db, c, "the plugin's callback came outside of the transaction: another plugin removed or replaced GORM's callbacks",
				"register the plugin after the other one, or write inside db.Transaction")
		}
		changes, err := c.rows(db, c)
		if err != nil {
			return err
		}
		return in.emitChanges(db, c, changes)
	})
	if err == nil {
		return
	}
	c.finishRecorders(false)
	// GORM rolls its own transaction back, unless the pool only pretends to be one.
	if c.own == nil && (!startedByGORM(db) || pretends(db.Statement.ConnPool)) {
		err = errors.Join(err, in.poison(db.Statement.Context, db.Statement.ConnPool, err))
	}
	_ = db.AddError(err)
}

// failed looks after a write that failed. What the user sees is what GORM would have shown him; and if the error came
// after the row, from what the database returned for example, a user who ignores it must not commit the row.
func (in *instance) failed(db *gorm.DB, c *capture) {
	written := db.RowsAffected > 0
	if c.scan != nil {
		n := c.scan.rows.Len()
		// Rows that came back before an error are written, unless the server returns them one by one and fails at a later one.
		written = n > 0 && (in.traits.ReturnUpdate || c.op == "create" && n == len(c.keys))
		if c.op != "create" || len(backfilled(db, c.model)) == 0 {
			db.RowsAffected = 0
		} else if !c.shared {
			_ = c.backfill(db) // the first error is the one that counts
		}
	}
	if !written || c.rows == nil || c.own != nil || startedByGORM(db) && !pretends(db.Statement.ConnPool) {
		return
	}
	if err := in.poison(db.Statement.Context, db.Statement.ConnPool, db.Error); err != nil {
		_ = db.AddError(err)
	}
}

// end forgets the capture and wakes the relays. It stands behind GORM's commit.
func (in *instance) end(db *gorm.DB) {
	c := in.captureOf(db)
	if c == nil {
		return
	}
	c.restore()
	in.leave(db, c) // of a chain from which the emit callback was removed
	db.Statement.Settings.Delete(in)
	in.live.Add(-1)
	if startedByGORM(db) {
		c.finishRecorders(db.Error == nil)
	}
	if c.written > 0 && db.Error == nil {
		switch {
		case startedByGORM(db):
			in.plugin.hub.wake(true)
		case !in.plugin.hub.note(c.tx, nil): // or it will be seen to end
			in.plugin.hub.wake(false)
		}
	}
}

func startedByGORM(db *gorm.DB) bool {
	_, started := db.InstanceGet("gorm:started_transaction")
	return started
}

// fail is an error about a write that was not made, or that was and must be undone.
func (in *instance) fail(db *gorm.DB, c *capture, cause, cure string) error {
	return &CaptureError{Op: c.op, Model: c.model.name, Table: db.Statement.Table, Cause: cause, Cure: cure}
}
