package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// transaction is one transaction of the middleware. Its context is not the
// message's: database/sql rolls back when the context of a transaction is
// done, so work that a handler finished while its router was closing would be
// lost. Instead:
//
//   - while it begins, the end of the message's context ends the wait for a connection;
//   - afterwards the end of the message's context starts CommitTimeout;
//   - so does the commit.
type transaction struct {
	db  *gorm.DB
	key key
	// recorded looks for the record.
	recorded func(ctx context.Context) (bool, error)
	logger   *slog.Logger
	limit    time.Duration

	guarded *guarded
	watched *gormoutbox.Watched // for the relays of this process
	cause   func() error        // why the transaction's context is done
	cancel  context.CancelCauseFunc
	detach  func() bool // from the message's context

	mu    sync.Mutex
	timer *time.Timer
	ended bool

	committed bool
}

func (d *Deduplicator) beginTx(msgCtx context.Context, k key) (*transaction, error) {
	if err := msgCtx.Err(); err != nil {
		return nil, fmt.Errorf("dedup: beginning for %v: its context has ended already (if Retry stands outside of Timeout, set Retry.ResetContextOnRetry): %w", k, err)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(msgCtx))
	release := context.AfterFunc(msgCtx, func() { cancel(context.Cause(msgCtx)) })
	db := d.db.Session(&gorm.Session{NewDB: true, Context: ctx}).Begin(d.begin...)
	alive := release()

	t := &transaction{
		db: db, key: k, logger: d.config.Logger, limit: d.config.CommitTimeout,
		cause: func() error { return context.Cause(ctx) }, cancel: cancel, detach: func() bool { return true },
	}
	if err := db.Error; err != nil {
		cancel(nil)
		if msgErr := msgCtx.Err(); msgErr != nil {
			err = msgErr
		}
		return nil, &databaseError{fmt.Errorf("dedup: beginning for %v: %w", k, err)}
	}
	if !alive { // the message's context ended just now and takes the transaction along
		t.end(msgCtx)
		return nil, &databaseError{fmt.Errorf("dedup: beginning for %v: %w", k, msgCtx.Err())}
	}
	t.detach = context.AfterFunc(msgCtx, t.arm)
	t.guarded = newGuard(db, d.dialect.Name() == "mysql")
	t.watched = gormoutbox.Watch(db)
	t.recorded = func(ctx context.Context) (bool, error) { return exists(ctx, t.raw(), d.sql.exists, k.consumer, k.id) }
	return t, nil
}

// raw is the pool for prebuilt SQL. GORM's cache of prepared statements would
// add round trips, and takes a lock that all transactions share.
func (t *transaction) raw() gorm.ConnPool {
	if t.guarded.plain != nil {
		return t.guarded.plain
	}
	return t.db.Statement.ConnPool
}

// arm starts the time that the transaction has left, once.
func (t *transaction) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil && !t.ended {
		t.timer = time.AfterFunc(t.limit, func() { t.cancel(ErrCommitTimeout) })
	}
}

func (t *transaction) commit() error {
	if err := t.watched.BeforeCommit(t.db.Statement.Context); err != nil {
		return t.explain(err)
	}
	t.arm()
	if err := t.still(); err != nil {
		return err
	}
	tx, ok := t.db.Statement.ConnPool.(gorm.TxCommitter)
	if !ok {
		return fmt.Errorf("dedup: committing %v: %w", t.key, gorm.ErrInvalidTransaction)
	}
	err := tx.Commit()
	switch {
	case err == nil:
		t.committed = true
		return nil
	case lost(err) && !errors.Is(t.cause(), ErrCommitTimeout):
		return &databaseError{fmt.Errorf("dedup: committing %v: %w", t.key, err)}
	default:
		return t.explain(fmt.Errorf("dedup: committing %v: %w", t.key, err))
	}
}

// still says whether the transaction is the one that was begun: InnoDB rolls all of it back in a deadlock, and what follows is committed one by one.
func (t *transaction) still() error {
	if t.guarded.lost != nil || !t.guarded.pending && !t.guarded.doubtful {
		return t.guarded.lost
	}
	found, err := t.recorded(t.db.Statement.Context)
	if err == nil && !found {
		err = errors.New("the record is there no more, so the database has rolled the transaction back, in a deadlock for example")
	}
	if err != nil {
		return t.explain(&databaseError{fmt.Errorf("dedup: committing %v: %w", t.key, err)})
	}
	return nil
}

// lasting is ctx as long as the transaction lasts.
func (t *transaction) lasting(ctx context.Context) context.Context {
	return lasting{Context: t.db.Statement.Context, values: ctx}
}

// lasting has the end of one context and the values of another.
type lasting struct {
	context.Context

	values context.Context
}

// Value implements context.Context.
func (l lasting) Value(key any) any { return l.values.Value(key) }

// explain adds to an error that the handler has ended the transaction, or that its time was up, if it is so.
func (t *transaction) explain(err error) error {
	if errors.Is(t.cause(), ErrCommitTimeout) {
		// Without context.Canceled in the chain, for which routers log nothing.
		return fmt.Errorf("%w: %v: %v", ErrCommitTimeout, t.key, err) //nolint:errorlint // see above
	}
	if errors.Is(err, sql.ErrTxDone) && t.cause() == nil {
		return fmt.Errorf("%w: %w", ErrEndedByHandler, err)
	}
	return err
}

// end rolls back unless the transaction was committed, and gives everything back. It tells whether the
// connection was found lost: then the rollback fails, and the database has rolled back by itself.
func (t *transaction) end(ctx context.Context) (lost bool) {
	t.detach()
	if tx, ok := t.db.Statement.ConnPool.(gorm.TxCommitter); ok {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			lost = true
			t.logger.DebugContext(ctx, "rollback failed", slog.String("consumer", t.key.consumer),
				slog.String("message_id", t.key.id), slog.Any("error", err))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.watched.End(t.committed)
	}
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.cancel(nil)
	return lost
}
