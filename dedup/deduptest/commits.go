package deduptest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"gorm.io/gorm"
)

// ErrCommit is the error of a commit that was made to fail.
var ErrCommit = errors.New("deduptest: the commit failed, as it was told to")

// Failure is how a commit fails.
type Failure int

const (
	// CommitRefused means that the transaction was rolled back.
	CommitRefused Failure = iota
	// CommitLost means that the transaction was committed, and that its answer was lost.
	CommitLost
)

// Commits makes commits fail. It is safe for concurrent use.
type Commits struct {
	mu   sync.Mutex
	next []Failure
	n    int
}

// WatchCommits lets the test decide about the commits of db, of all transactions that are begun from then on through this *gorm.DB and those
// made from it. Call it before the outbox plugin is registered and before dedup.New. The test fails if a commit that was to fail never came.
func WatchCommits(t testing.TB, db *gorm.DB) *Commits {
	t.Helper()
	if _, ok := db.ConnPool.(gorm.TxCommitter); ok {
		t.Fatal("deduptest: WatchCommits needs the *gorm.DB that gorm.Open returned, and not a transaction")
	}
	c := &Commits{}
	t.Cleanup(func() {
		if left := c.left(); left > 0 {
			t.Errorf("deduptest: %d commits were to fail and did not: there were none after FailNext, or WatchCommits was called behind db.Use or dedup.New, whose transactions it does not see then", left)
		}
	})
	pool := &pool{ConnPool: db.ConnPool, commits: c}
	if prepared, ok := db.ConnPool.(*gorm.PreparedStmtDB); ok {
		pool.ConnPool = prepared.ConnPool
		prepared.ConnPool = pool
		return c
	}
	db.ConnPool = pool
	db.Statement.ConnPool = pool
	return c
}

// FailNext makes the next commits fail, one for each. All of them must have come when the test ends.
func (c *Commits) FailNext(failures ...Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = append(c.next, failures...)
}

func (c *Commits) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.next)
}

// Failed returns how many commits were made to fail.
func (c *Commits) Failed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *Commits) failure() (f Failure, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.next) == 0 {
		return 0, false
	}
	f, c.next = c.next[0], c.next[1:]
	c.n++
	return f, true
}

// pool is a pool whose transactions ask before they commit.
type pool struct {
	gorm.ConnPool

	commits *Commits
}

var (
	_ gorm.ConnPoolBeginner = (*pool)(nil)
	_ gorm.GetDBConnector   = (*pool)(nil)
	_ gorm.Tx               = (*tx)(nil)
)

// BeginTx implements gorm.ConnPoolBeginner.
func (p *pool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	var inner gorm.ConnPool
	var err error
	switch b := p.ConnPool.(type) {
	case gorm.TxBeginner:
		var begun *sql.Tx
		if begun, err = b.BeginTx(ctx, opts); err == nil {
			inner = begun
		}
	case gorm.ConnPoolBeginner:
		inner, err = b.BeginTx(ctx, opts)
	default:
		err = gorm.ErrInvalidTransaction
	}
	if err != nil {
		return nil, err
	}
	t, ok := inner.(gorm.Tx)
	if !ok {
		return nil, errors.New("deduptest: the pool's transactions can't be watched")
	}
	return &tx{t, p.commits}, nil
}

// GetDBConn implements gorm.GetDBConnector.
func (p *pool) GetDBConn() (*sql.DB, error) {
	switch inner := p.ConnPool.(type) {
	case *sql.DB:
		return inner, nil
	case gorm.GetDBConnector:
		return inner.GetDBConn()
	}
	return nil, gorm.ErrInvalidDB
}

type tx struct {
	gorm.Tx

	commits *Commits
}

// Commit implements gorm.TxCommitter.
func (t *tx) Commit() error {
	failure, fails := t.commits.failure()
	switch {
	case !fails:
		return t.Tx.Commit()
	case failure == CommitLost:
		return errors.Join(ErrCommit, t.Tx.Commit())
	default:
		return errors.Join(ErrCommit, t.Tx.Rollback())
	}
}
