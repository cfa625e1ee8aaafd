package gormoutbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"gorm.io/gorm"
)

// watch is a transaction of the user whose end the plugin will see.
type watch struct {
	in        *instance
	tx        gorm.ConnPool
	mu        sync.Mutex
	recorders []*Recorder
	written   bool
}

// watch begins to watch a transaction; end must be called after it.
func (in *instance) watch(pool gorm.ConnPool) *watch {
	w := &watch{in: in, tx: unprepared(pool)}
	in.plugin.hub.watched.Store(w.tx, w)
	return w
}

// note tells the watch of a transaction, if it has one, of events that were written in it.
func (h *hub) note(tx gorm.ConnPool, recorders []*Recorder) (watched bool) {
	found, ok := h.watched.Load(tx)
	if !ok {
		return false
	}
	w := found.(*watch)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = true
	for _, r := range recorders {
		if !slices.Contains(w.recorders, r) {
			w.recorders = append(w.recorders, r)
		}
	}
	return true
}

// beforeCommit finds out which recorded events a savepoint has taken back.
func (w *watch) beforeCommit(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.recorders {
		if err := w.in.recall(ctx, r, w.tx); err != nil {
			return err
		}
	}
	return nil
}

// end is called once the transaction has ended.
func (w *watch) end(committed bool) {
	w.in.plugin.hub.watched.Delete(w.tx)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.recorders {
		r.settle(w.tx, committed)
	}
	if committed && w.written {
		w.in.plugin.hub.wake(true)
	}
}

// Transaction is db.Transaction that wakes the relays of this process after the
// commit, and lets a Recorder forget its events then. Without it they find the events of a transaction by polling, which
// is fast for about a second after a write. Without a plugin on db it returns
// ErrNotRegistered and runs nothing.
func Transaction(db *gorm.DB, fn func(tx *gorm.DB) error, opts ...*sql.TxOptions) (err error) {
	if db == nil || db.Config == nil {
		return &ConfigError{Field: "db", Cause: "it is nil", Cure: "pass an open *gorm.DB"}
	}
	if fn == nil {
		return &ConfigError{Field: "fn", Cause: "it is nil", Cure: "pass the function that writes"}
	}
	plugins := pluginsOf(db)
	if len(plugins) == 0 {
		return ErrNotRegistered
	}
	if _, nested := transactionOf(db.Statement.ConnPool); nested {
		return db.Transaction(fn, opts...) // the outer one decides
	}
	for _, p := range plugins {
		if _, err := p.on(db); err != nil {
			return err
		}
	}
	var watched *Watched
	committed := false
	defer func() { watched.End(committed) }() // also if fn panics
	err = db.Transaction(func(tx *gorm.DB) error {
		watched = Watch(tx)
		if err := fn(tx); err != nil {
			return err
		}
		return watched.BeforeCommit(tx.Statement.Context)
	}, opts...)
	committed = err == nil
	return err
}

// Watched is a transaction that somebody else than this package begins and ends. See Watch.
type Watched struct{ watches []*watch }

// Watch tells the plugins on tx of a transaction that the caller has just begun. It does for it what Transaction
// does for its own, if the caller calls BeforeCommit before he commits and End in any case. Without a plugin on tx it returns
// nil, whose methods do nothing.
func Watch(tx *gorm.DB) *Watched {
	plugins := pluginsOf(tx)
	if len(plugins) == 0 {
		return nil
	}
	w := &Watched{}
	for _, p := range plugins {
		if in, err := p.on(tx); err == nil {
			w.watches = append(w.watches, in.watch(tx.Statement.ConnPool))
		}
	}
	return w
}

// BeforeCommit finds out which recorded events were taken back by a savepoint. If it fails, the transaction must be rolled back.
func (w *Watched) BeforeCommit(ctx context.Context) error {
	if w == nil {
		return nil
	}
	for _, one := range w.watches {
		if err := one.beforeCommit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// End says that the transaction has ended: it wakes relays of this process if events were committed.
func (w *Watched) End(committed bool) {
	if w == nil {
		return
	}
	for _, one := range w.watches {
		one.end(committed)
	}
}

// watchCommits puts a pool below db that sees its transactions end.
func (in *instance) watchCommits(db *gorm.DB) {
	wrap := func(pool gorm.ConnPool) gorm.ConnPool {
		if prepared, ok := pool.(*gorm.PreparedStmtDB); ok {
			if _, done := prepared.ConnPool.(*watchedPool); !done {
				prepared.ConnPool = &watchedPool{prepared.ConnPool, in}
			}
			return prepared
		}
		return &watchedPool{pool, in}
	}
	db.ConnPool = wrap(db.ConnPool)
	db.Statement.ConnPool = db.ConnPool
}

// watchedPool is a pool whose transactions tell when they are committed.
type watchedPool struct {
	gorm.ConnPool
	in *instance
}

var (
	_ gorm.ConnPoolBeginner = (*watchedPool)(nil)
	_ gorm.GetDBConnector   = (*watchedPool)(nil)
	_ gorm.Tx               = (*watchedTx)(nil)
)

// BeginTx implements gorm.ConnPoolBeginner.
func (p *watchedPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	var inner gorm.ConnPool
	var err error
	switch b := p.ConnPool.(type) {
	case gorm.TxBeginner:
		var tx *sql.Tx
		if tx, err = b.BeginTx(ctx, opts); err == nil {
			inner = tx
		}
	case gorm.ConnPoolBeginner:
		inner, err = b.BeginTx(ctx, opts)
	default:
		err = gorm.ErrInvalidTransaction
	}
	if err != nil {
		return nil, err
	}
	tx, ok := inner.(gorm.Tx)
	if !ok {
		return inner, nil // can't be watched: as without the option
	}
	w := &watchedTx{Tx: tx, ctx: context.WithoutCancel(ctx)}
	w.watch = p.in.watch(w)
	return w, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *watchedPool) GetDBConn() (*sql.DB, error) {
	switch inner := p.ConnPool.(type) {
	case *sql.DB:
		return inner, nil
	case gorm.GetDBConnector:
		return inner.GetDBConn()
	}
	return nil, gorm.ErrInvalidDB
}

// Ping does what gorm.Open asks of a pool.
func (p *watchedPool) Ping() error {
	if pinger, ok := p.ConnPool.(interface{ Ping() error }); ok {
		return pinger.Ping()
	}
	return nil
}

// watchedTx is a transaction that tells when it is committed.
type watchedTx struct {
	gorm.Tx
	ctx   context.Context // for the look at recorded events, which Commit has none for
	watch *watch
}

// Commit implements gorm.TxCommitter.
func (t *watchedTx) Commit() error {
	if err := t.watch.beforeCommit(t.ctx); err != nil {
		return errors.Join(err, t.Rollback())
	}
	err := t.Tx.Commit()
	t.watch.end(err == nil)
	return err
}

// Rollback implements gorm.TxCommitter.
func (t *watchedTx) Rollback() error {
	err := t.Tx.Rollback()
	t.watch.end(false)
	return err
}
