package gormoutbox_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// With WatchCommits every commit is seen, and a rollback wakes nobody.
func TestWatchCommits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, config := range []*gorm.Config{{}, {SkipDefaultTransaction: true}, {PrepareStmt: true}} {
			g := db.Open(t, config)
			use(t, g, gormoutbox.Config{WatchCommits: true}, &Order{}, &Lang{})
			p, err := gormoutbox.On(g)
			require.NoError(t, err)
			s := p.Subscribe()
			defer s.Close()
			create := func(tx *gorm.DB) error { return tx.Create(newOrder()).Error }
			event := gormoutbox.Event{Type: "t", Payload: "1"}
			for name, step := range map[string]struct {
				run  func() error
				want string
			}{
				"create":           {func() error { return create(g) }, "committed"},
				"batches":          {func() error { return g.CreateInBatches([]*Order{newOrder(), newOrder()}, 1).Error }, "committed"},
				"user transaction": {func() error { return g.Transaction(create) }, "committed"},
				"append in it":     {func() error { return g.Transaction(func(tx *gorm.DB) error { return gormoutbox.Append(tx, event) }) }, "committed"},
				"nested": {func() error {
					return g.Transaction(func(tx *gorm.DB) error { return tx.Transaction(create) })
				}, "committed"},
				"helper":           {func() error { return gormoutbox.Transaction(g, create) }, "committed"},
				"prepared session": {func() error { return g.Session(&gorm.Session{PrepareStmt: true}).Transaction(create) }, "committed"},
				"with its options": {func() error { return g.Transaction(create, &sql.TxOptions{}) }, "committed"},
				"connection":       {func() error { return g.Connection(func(tx *gorm.DB) error { return tx.Transaction(create) }) }, "pending"},
				"without an event": {func() error { return g.Transaction(func(tx *gorm.DB) error { return tx.Exec("SELECT 1").Error }) }, ""},
				"begin and commit": {func() error { tx := g.Begin(); require.NoError(t, create(tx)); return tx.Commit().Error }, "committed"},
				"begin, roll back": {func() error { tx := g.Begin(); require.NoError(t, create(tx)); return tx.Rollback().Error }, ""},
				"failed": {func() error {
					_ = g.Transaction(func(tx *gorm.DB) error { _ = create(tx); return errBack })
					return nil
				}, ""},
				"failed save point": {func() error {
					return g.Transaction(func(tx *gorm.DB) error { _ = tx.Transaction(func(*gorm.DB) error { return errBack }); return nil })
				}, ""},
			} {
				require.NoError(t, step.run(), name)
				assert.Equal(t, step.want, signals(s), name)
				idle(t, g)
			}
			pool, err := g.DB()
			require.NoError(t, err)
			require.NoError(t, pool.PingContext(t.Context()))

			// The price that is documented.
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				_, ok := tx.Statement.ConnPool.(*sql.Tx)
				assert.False(t, ok)
				return nil
			}))
		}
	})
}

// Without the option nothing of the pool changes.
func TestPoolStaysAsItIs(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{})
	_, ok := g.ConnPool.(*sql.DB)
	assert.True(t, ok)
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
		_, ok := tx.Statement.ConnPool.(*sql.Tx)
		assert.True(t, ok)
		return nil
	}))
}
