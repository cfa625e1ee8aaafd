package dedup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// handle runs the handler unless the message is a duplicate, or stale. It returns what to count.
func (d *Deduplicator) handle(msg *message.Message, h message.HandlerFunc) (outcome *atomic.Uint64, err error) {
	ctx := msg.Context()
	k, err := d.keyOf(msg)
	if err != nil {
		return &d.failed, err
	}
	p, err := d.placeOf(msg)
	if err != nil {
		return &d.failed, err
	}
	for force := false; ; {
		late, gap := false, (*GapError)(nil)
		duplicate, err := d.once(ctx, k, msg, func(tx *transaction, inside context.Context) (err error) {
			if p != (place{}) {
				if late, err = d.arrange(ctx, tx, k, p, force); late || err != nil {
					gap, _ = errors.AsType[*GapError](err)
					return err
				}
			}
			return d.run(inside, tx, k, msg, h)
		})
		if gap != nil { // and not one of the handler's
			come, err := d.hold(ctx, k, gap)
			if err != nil {
				return &d.failed, err
			}
			force = !come
			continue
		}
		switch {
		case err != nil:
			return &d.failed, err
		case p != (place{}):
			d.held.Delete(k)
		}
		switch {
		case duplicate:
			return &d.duplicates, nil
		case late:
			return &d.stale, nil
		}
		return &d.committed, nil
	}
}

// run runs the handler in the transaction.
//
//nolint:contextcheck // the message has its context of before again
func (d *Deduplicator) run(inside context.Context, tx *transaction, k key, msg *message.Message, h message.HandlerFunc) error {
	ctx := msg.Context()
	msg.SetContext(gormoutbox.WithDefaultHeaders(inside, carriedOn(msg, k)))
	// Retry and PoisonQueue outside would otherwise see a finished transaction,
	// or the dead context that a Timeout inside leaves behind.
	defer msg.SetContext(ctx)
	poisoned := watchPoison(msg)
	produced, err := h(msg)
	if acked(msg) { // told for errors, too: subscribers end the context of what is acked, and that may be the error
		d.toldEarly(ctx, k)
	}
	if err != nil {
		return err
	}
	if poisoned() && !d.config.AnyOrder {
		return errPoisonedInside(message.HandlerNameFromCtx(ctx))
	}
	if len(produced) == 0 {
		return nil
	}
	return d.output(tx, msg, k, produced)
}

// toldEarly tells once that messages are acked before they are committed. They are handled all the same: a refusal would lose them now.
func (d *Deduplicator) toldEarly(ctx context.Context, k key) {
	d.early.Do(func() {
		d.config.Logger.ErrorContext(ctx, "messages are acked before their handler's commit, and are lost if it fails: "+
			"remove the middleware InstantAck, and Ack from the handler", slog.String("consumer", k.consumer), slog.String("message_id", k.id))
	})
}

// once runs fn in a transaction that records k, unless k is recorded already.
func (d *Deduplicator) once(ctx context.Context, k key, msg *message.Message, fn func(tx *transaction, inside context.Context) error) (duplicate bool, err error) {
	if handling(ctx, msg, k) {
		return false, ErrNested
	}
	if known, err := d.recordedBefore(ctx, k); known || err != nil {
		if known {
			d.skipped(ctx, k)
		}
		return known, err
	}
	tx, err := d.beginTx(ctx, k)
	if err != nil {
		return false, err
	}
	defer tx.end(ctx) // rolls back what is not committed, after a panic too

	var fresh bool
	err = d.inTime(ctx, k, func(ctx context.Context) (err error) {
		fresh, err = d.record(ctx, tx.raw(), k)
		return err
	})
	if err != nil {
		tx.end(ctx) // the pool may have one connection
		return false, aboutDatabase(d.explain(ctx, err))
	}
	if !fresh {
		d.repeated.Store(true)
		d.skipped(ctx, k)
		return true, nil
	}
	s := &session{db: tx.db, msg: msg, key: k, outer: sessionOf(ctx)}
	defer s.ended.Store(true)
	if err := fn(tx, gormoutbox.WithTx(context.WithValue(ctx, sessionKey{}, s), tx.db)); err != nil {
		err = tx.guarded.explain(ctx, err)
		// A driver also breaks the connection when the message's context ends. That is the handler's doing, which took too long.
		if tx.end(ctx) && ctx.Err() == nil {
			err = aboutDatabase(err)
		}
		return false, err
	}
	return false, tx.commit()
}

// recordedBefore looks for the record without a transaction, if the last message was a duplicate: they come in rows, after a crash or a
// rebalance, and this costs one round trip instead of four. It returns an error if the message's context ended while it waited for a connection; whatever
// else it finds out, record will, too.
func (d *Deduplicator) recordedBefore(ctx context.Context, k key) (bool, error) {
	if !d.repeated.Load() || ctx.Err() != nil {
		return false, nil //nolint:nilerr // beginTx says what that means
	}
	found, err := exists(ctx, plainPool(d.db), d.sql.committed, k.consumer, k.id)
	known := found && err == nil
	d.repeated.Store(known)
	if !known && ctx.Err() != nil {
		return false, &databaseError{fmt.Errorf("dedup: looking for the record of %v: %w", k, ctx.Err())}
	}
	return known, nil
}

// plainPool is the pool behind GORM's cache of prepared statements, see transaction.raw.
func plainPool(db *gorm.DB) gorm.ConnPool {
	if prepared, ok := db.Statement.ConnPool.(*gorm.PreparedStmtDB); ok {
		return prepared.ConnPool
	}
	return db.Statement.ConnPool
}

func (d *Deduplicator) skipped(ctx context.Context, k key) {
	d.config.Logger.DebugContext(ctx, "duplicate message skipped", slog.String("consumer", k.consumer), slog.String("message_id", k.id))
}

// inTime runs fn, which waits for others that handle the same message, or one of its stream, no longer than the config allows.
func (d *Deduplicator) inTime(ctx context.Context, k key, fn func(ctx context.Context) error) error {
	limited := ctx
	if d.config.LockTimeout != NoLimit {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, d.config.LockTimeout, ErrBusy)
		defer cancel()
	}
	err := fn(limited)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), ErrBusy) {
		// Without context.DeadlineExceeded in the chain, which is the message's.
		return fmt.Errorf("%w (%s): %v: %v", ErrBusy, d.config.LockTimeout, k, err) //nolint:errorlint // see above
	}
	return err
}

// explainTimeout bounds the look at the table after a record could not be written.
const explainTimeout = 5 * time.Second

// explain adds to the error of a record what is wrong with the table, if it is not what it should be.
func (d *Deduplicator) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrBusy) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	if schema, ok := errors.AsType[*SchemaError](CheckTable(ctx, d.db, d.config.Table)); ok {
		return fmt.Errorf("%w: %w", schema, err)
	}
	return err
}
