package gormoutbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// style is a way to run writes in a transaction.
type style struct {
	name string
	// config is that of gorm.Open.
	config gorm.Config
	// run creates o and returns the error that a careful caller sees, of the write or of the commit.
	run func(g *gorm.DB, o *Order) error
}

func create(g *gorm.DB, o *Order) error { return g.Create(o).Error }

func styles() []style {
	return []style{
		{name: "default transaction", run: create},
		{name: "save", run: func(g *gorm.DB, o *Order) error { return g.Save(o).Error }},
		{name: "user transaction, error returned", run: func(g *gorm.DB, o *Order) error {
			return g.Transaction(func(tx *gorm.DB) error { return create(tx, o) })
		}},
		{name: "user transaction, error ignored", run: func(g *gorm.DB, o *Order) error {
			return g.Transaction(func(tx *gorm.DB) error {
				_ = create(tx, o)
				return nil
			})
		}},
		{name: "begin and commit by hand, error ignored", run: func(g *gorm.DB, o *Order) error {
			tx := g.Begin()
			_ = create(tx, o)
			return tx.Commit().Error
		}},
		{name: "nested transaction", run: func(g *gorm.DB, o *Order) error {
			return g.Transaction(func(tx *gorm.DB) error {
				return tx.Transaction(func(inner *gorm.DB) error { return create(inner, o) })
			})
		}},
		{name: "nested transaction, error ignored", run: func(g *gorm.DB, o *Order) error {
			return g.Transaction(func(tx *gorm.DB) error {
				_ = tx.Transaction(func(inner *gorm.DB) error { return create(inner, o) })
				return nil
			})
		}},
		{name: "behind a savepoint, error ignored", run: func(g *gorm.DB, o *Order) error {
			tx := g.Begin()
			if err := tx.SavePoint("sp").Error; err != nil {
				tx.Rollback()
				return err
			}
			_ = create(tx, o)
			return tx.Commit().Error
		}},
		{name: "SkipDefaultTransaction in the config", config: gorm.Config{SkipDefaultTransaction: true}, run: create},
		{name: "SkipDefaultTransaction in a session", run: func(g *gorm.DB, o *Order) error {
			return create(g.Session(&gorm.Session{SkipDefaultTransaction: true}), o)
		}},
		{name: "SkipDefaultTransaction in a user transaction", config: gorm.Config{SkipDefaultTransaction: true}, run: func(g *gorm.DB, o *Order) error {
			return g.Transaction(func(tx *gorm.DB) error { return create(tx, o) })
		}},
		{name: "batches", run: func(g *gorm.DB, o *Order) error {
			return g.CreateInBatches([]*Order{newOrder(), newOrder(), o}, 2).Error
		}},
		{name: "batches under SkipDefaultTransaction", config: gorm.Config{SkipDefaultTransaction: true}, run: func(g *gorm.DB, o *Order) error {
			return g.CreateInBatches([]*Order{newOrder(), newOrder(), o}, 2).Error
		}},
		{name: "PrepareStmt", config: gorm.Config{PrepareStmt: true}, run: create},
		{name: "PrepareStmt in a session, user transaction, error ignored", run: func(g *gorm.DB, o *Order) error {
			tx := g.Session(&gorm.Session{PrepareStmt: true}).Begin()
			_ = create(tx, o)
			return tx.Commit().Error
		}},
		{name: "Connection", run: func(g *gorm.DB, o *Order) error {
			return g.Connection(func(conn *gorm.DB) error { return create(conn, o) })
		}},
		{name: "Connection under SkipDefaultTransaction", config: gorm.Config{SkipDefaultTransaction: true}, run: func(g *gorm.DB, o *Order) error {
			return g.Connection(func(conn *gorm.DB) error { return create(conn, o) })
		}},
		{name: "TranslateError", config: gorm.Config{TranslateError: true}, run: create},
		{name: "generics", run: func(g *gorm.DB, o *Order) error {
			return gorm.G[Order](g).Create(context.Background(), o)
		}},
	}
}

// Row and event are committed together or not at all: contract 1. The pool has
// one connection, so that nothing can hide on a second.
func TestAtomicity(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		setup(t, db, gormoutbox.Config{}, &Order{})
		for _, s := range styles() {
			t.Run(s.name, func(t *testing.T) {
				for _, b := range append(brokenWays(), broken{name: "whole"}) {
					t.Run(b.name, func(t *testing.T) { atomic(t, db, s, b) })
				}
			})
		}
	})
}

func atomic(t *testing.T, db testenv.Database, s style, b broken) {
	t.Helper()
	config := s.config
	g := db.Open(t, &config)
	pool, err := g.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(1)
	require.NoError(t, g.Use(gormoutbox.New(b.config)))
	require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Order{}).Error)
	require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)

	if b.breakIt != nil { // a working plugin, which knows the tables
		require.NoError(t, s.run(g, newOrder()))
		require.Equal(t, count(t, g, &Order{}), eventCount(t, g))
		b.breakIt(t, g)
		defer mend(t, g)
	}
	rows, stored := count(t, g, &Order{}), eventCount(t, g)

	err = s.run(g, newOrder())
	if b.name == "whole" {
		require.NoError(t, err)
		assert.Positive(t, count(t, g, &Order{}))
		assert.Equal(t, count(t, g, &Order{}), eventCount(t, g))
	} else {
		require.Error(t, err)
		assert.NotErrorIs(t, err, gorm.ErrDuplicatedKey)
		assert.NotContains(t, err.Error(), "card-4111")
		assert.Equal(t, rows, count(t, g, &Order{}), "rows")
		assert.Equal(t, stored, eventCount(t, g), "events")
	}
	idle(t, g)
}

func TestAtomicityOfUpdateAndDelete(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Order{})
			o := newOrder()
			require.NoError(t, g.Create(o).Error)
			for _, stmt := range rejecting[g.Name()] {
				require.NoError(t, g.Exec(stmt).Error)
			}
			stored := eventCount(t, g)

			require.Error(t, g.Model(o).Update("status", "paid").Error)
			require.Error(t, g.Delete(o).Error)
			require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
				_ = tx.Model(o).Update("status", "paid").Error
				return nil
			}), errTxDone)

			var now Order
			require.NoError(t, g.First(&now, "id = ?", o.ID).Error)
			assert.Equal(t, "placed", now.Status)
			assert.Equal(t, stored, eventCount(t, g))
			idle(t, g)
			mend(t, g)
		}
	})
}

// The events of what was rolled back go, and the others stay.
func TestRollbackToSavepoint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		kept, gone, last := newOrder(), newOrder(), newOrder()
		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(kept).Error)
			require.NoError(t, tx.SavePoint("sp").Error)
			require.NoError(t, tx.Create(gone).Error)
			require.NoError(t, tx.RollbackTo("sp").Error)
			require.Error(t, tx.Transaction(func(inner *gorm.DB) error {
				require.NoError(t, inner.Create(gone).Error)
				return errors.New("the user's")
			}))
			return tx.Create(last).Error
		}))
		require.ErrorContains(t, g.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, tx.Create(gone).Error)
			return errors.New("the user's")
		}), "the user's")

		all := events(t, g)
		require.Len(t, all, 2)
		assert.Equal(t, kept.ID.String(), all[0].AggregateID)
		assert.Equal(t, last.ID.String(), all[1].AggregateID)
		assert.Equal(t, 2, count(t, g, &Order{}))
		idle(t, g)
	})
}
