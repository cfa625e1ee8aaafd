package gormoutbox

import (
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// Append writes domain events to the outbox within the transaction tx, with the
// plugin that is registered on it. Outside of a transaction it makes one of its
// own. The context is that of tx.WithContext.
//
// If an event is invalid or can't be written, nothing is and the transaction is
// rolled back, so that an ignored error can't commit the rest without its
// events. In a session with DryRun nothing is written. Errors are *EventError, *SchemaError, ErrNotRegistered, or wrap the driver's.
//
// Order: events of one aggregate are published in commit order only if the
// database serializes their writers. Change or lock the aggregate's row before.
func Append(tx *gorm.DB, events ...Event) error {
	if tx != nil && tx.Error != nil {
		return failedBefore(tx) // a handle that says why it can't be used, such as dedup.Tx outside of its middleware
	}
	p, err := On(tx)
	if err != nil {
		return err
	}
	return p.Append(tx, events...)
}

// Append is the function Append for this plugin.
func (p *Plugin) Append(tx *gorm.DB, events ...Event) error {
	if tx == nil || tx.Config == nil {
		return &ConfigError{Field: "tx", Cause: "it is nil", Cure: "pass an open *gorm.DB"}
	}
	in, err := p.on(tx)
	if err != nil {
		return err
	}
	if tx.Error != nil {
		return failedBefore(tx)
	}
	if len(events) == 0 || tx.DryRun {
		return nil
	}
	pool := tx.Statement.ConnPool
	if _, ok := transactionOf(pool); !ok {
		// NewDB: conditions that the caller may have put on tx are not ours.
		session := tx.Session(&gorm.Session{NewDB: true, Context: tx.Statement.Context})
		err := session.Transaction(func(inner *gorm.DB) error { return in.append(inner, events) })
		if err == nil {
			p.hub.wake(true)
		}
		return err
	}
	if err := in.append(tx, events); err != nil {
		return errors.Join(err, in.poison(tx.Statement.Context, pool, err))
	}
	if !p.hub.note(unprepared(pool), nil) {
		p.hub.wake(false)
	}
	return nil
}

func failedBefore(tx *gorm.DB) error {
	return fmt.Errorf("gormoutbox: append on a failed *gorm.DB: %w", tx.Error)
}

func (in *instance) append(tx *gorm.DB, events []Event) error {
	return recovered(func() error { return in.appendRows(tx, events) })
}

func (in *instance) appendRows(tx *gorm.DB, events []Event) error {
	ctx := tx.Statement.Context
	rows := make([]row, len(events))
	for i, e := range events {
		r, err := e.toRow()
		if err == nil {
			err = in.finish(ctx, &r, e.Headers)
		}
		if err != nil {
			return fmt.Errorf("event %d of %d: %w", i+1, len(events), err)
		}
		rows[i] = r
	}
	rows, err := in.onlyNew(ctx, unprepared(tx.Statement.ConnPool), rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	return in.write(ctx, tx, tx.Statement.ConnPool, rows)
}
