package gormoutbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"gorm.io/gorm"
)

// ownTx is the transaction around one statement that had none. It is opened just
// before the write and ended just after the events are written, so that no hook of the user runs
// in it. The plugins on one *gorm.DB share it: the last one to leave ends it.
type ownTx struct {
	base gorm.ConnPool // to go back to
	// members are the captures that use it.
	members int
	// ended are to be told how it ended.
	ended []func(committed bool)
}

type ownTxKey struct{ stmt *gorm.Statement }

// join makes sure that the statement is in a transaction.
func (in *instance) join(db *gorm.DB, c *capture) error {
	stmt := db.Statement
	if own, ok := stmt.Settings.Load(ownTxKey{stmt}); ok {
		c.own = own.(*ownTx)
		c.own.members++
		return nil
	}
	if _, ok := transactionOf(stmt.ConnPool); ok {
		return nil
	}
	if _, ok := stmt.ConnPool.(gorm.TxCommitter); ok {
		return in.fail(db, c, fmt.Sprintf("the connection pool %T of another plugin calls itself a transaction and is none", stmt.ConnPool),
			"write inside a transaction of the underlying pool, or use gormoutbox.Ignore(ctx) to write without an event")
	}
	tx := db.Begin()
	if tx.Error != nil {
		return fmt.Errorf("gormoutbox: beginning a transaction: %w", tx.Error)
	}
	c.own = &ownTx{base: stmt.ConnPool, members: 1}
	stmt.ConnPool = tx.Statement.ConnPool
	stmt.Settings.Store(ownTxKey{stmt}, c.own)
	return nil
}

// leave ends the transaction that join opened once all plugins have left it. Calling it again does nothing.
func (in *instance) leave(db *gorm.DB, c *capture) {
	own, stmt := c.own, db.Statement
	if own == nil {
		return
	}
	c.own = nil
	if c.written > 0 {
		c.written = 0 // not to be reported again by end
		own.ended = append(own.ended, func(committed bool) {
			c.finishRecorders(committed)
			if committed {
				in.plugin.hub.wake(true)
			}
		})
	}
	if own.members--; own.members > 0 {
		return
	}
	stmt.Settings.Delete(ownTxKey{stmt})
	tx, _ := stmt.ConnPool.(gorm.TxCommitter) // join has put it there
	stmt.ConnPool = own.base
	committed := false
	switch {
	case tx == nil:
	case db.Error != nil:
		// A cancelled context has rolled it back already.
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			_ = db.AddError(fmt.Errorf("gormoutbox: rolling back: %w", err))
		}
	default:
		err := tx.Commit()
		if committed = err == nil; !committed {
			_ = db.AddError(fmt.Errorf("gormoutbox: committing: %w", err))
		}
	}
	for _, fn := range own.ended {
		fn(committed)
	}
}

// transactionOf returns the transaction that pool is. GORM's own test, whether
// the pool can commit, is not enough: the pool of the sharding plugin always
// can, with a transaction inside or not. Such a pool can begin one, too.
func transactionOf(pool gorm.ConnPool) (gorm.TxCommitter, bool) {
	tx, ok := pool.(gorm.TxCommitter)
	if !ok {
		return nil, false
	}
	switch pool.(type) {
	case gorm.TxBeginner, gorm.ConnPoolBeginner:
	default:
		return tx, true
	}
	v := reflect.Indirect(reflect.ValueOf(pool))
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	f := v.FieldByName("ConnPool")
	if !f.IsValid() || !f.CanInterface() {
		return nil, false
	}
	inner, ok := f.Interface().(gorm.ConnPool)
	if !ok {
		return nil, false
	}
	return transactionOf(inner)
}

// pretends says whether pool is a transaction only by what is inside of it.
func pretends(pool gorm.ConnPool) bool {
	tx, ok := transactionOf(pool)
	return ok && any(tx) != any(pool)
}

// poison rolls back the transaction of a caller who may ignore our error, so
// that he can't commit the row without its event. The log says why, as a caller who ignores
// the error only hears of a transaction that has ended.
func (in *instance) poison(ctx context.Context, pool gorm.ConnPool, cause error) error {
	tx, ok := transactionOf(pool)
	if !ok {
		return nil
	}
	in.config.Logger.WarnContext(ctx, "outbox rolled back a transaction whose events could not be written", slog.Any("error", cause))
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("gormoutbox: rolling back: %w", err)
	}
	return nil
}

// unprepared is the pool without GORM's cache of prepared statements: for
// statements of ours preparing would cost two round trips more.
func unprepared(pool gorm.ConnPool) gorm.ConnPool {
	for { // a session with PrepareStmt in a transaction of another is wrapped twice
		switch p := pool.(type) {
		case *gorm.PreparedStmtTX:
			pool = p.Tx
		case interface{ Unprepared() gorm.ConnPool }: // the transaction of a handler under package dedup
			return p.Unprepared()
		default:
			return pool
		}
	}
}
