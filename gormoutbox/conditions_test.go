package gormoutbox_test

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// GORM puts no parentheses around an OR between line breaks, so that it binds less than the key of the model. The
// event is of the row that was written.
func TestOrBesideTheKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Item{})
		for name, where := range map[string][]any{
			"named":      {"batch = @other\nOR\nbatch = @none", sql.Named("other", 2), sql.Named("none", 9)},
			"a map":      {"batch = @other\nOR\nbatch = @none", map[string]any{"other": 2, "none": 9}},
			"positional": {"batch = ?\nOR\nbatch = ?", 2, 9},
		} {
			require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Item{}).Error)
			require.NoError(t, ignoring(g).Create(&[]Item{{ID: 1, Batch: 1}, {ID: 2, Batch: 2}}).Error)
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			require.NoError(t, g.Model(&Item{ID: 1}).Where(where[0], where[1:]...).Update("name", "n").Error)
			all := events(t, g)
			require.Len(t, all, 1, name)
			assert.JSONEq(t, `{"ID":2,"Batch":2,"Name":"n"}`, string(all[0].Payload), name)
		}
		idle(t, g)
	})
}

// Of a statement that another plugin has made nothing is known.
func TestStatementMadeByAnother(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Item{})
		require.NoError(t, ignoring(g).Create(&[]Item{{ID: 1, Name: "a"}, {ID: 2, Name: "a"}}).Error)
		foreign := func(tx *gorm.DB) { _, _ = tx.Statement.WriteString("UPDATE items SET name = 'z' WHERE id = 2") }
		require.NoError(t, g.Callback().Update().After("gorm:begin_transaction").Before("gorm:before_update").Register("foreign", foreign))
		e, ok := isCapture(g.Model(&Item{ID: 1}).Update("name", "b").Error)
		require.True(t, ok)
		assert.Contains(t, e.Cause, "made before")
		var changed int64
		require.NoError(t, g.Model(&Item{}).Where("name <> ?", "a").Count(&changed).Error)
		assert.Zero(t, changed)
		assert.Empty(t, events(t, g))
		idle(t, g)
	})
}

// A statement that is used again has the user's conditions, not ours.
func TestConditionsStayInTheStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Item{})
		require.NoError(t, ignoring(g).Create(&[]Item{{ID: 1, Batch: 1}, {ID: 2, Batch: 2}}).Error)
		tx := g.Model(&Item{}).Where("batch = ?", 1)
		require.NoError(t, tx.Update("name", "a").Error)
		require.NoError(t, ignoring(g).Create(&Item{ID: 3, Batch: 1}).Error)
		require.NoError(t, tx.Update("name", "b").Error)
		all := events(t, g)
		require.Len(t, all, 3)
		for i, payload := range []string{`{"ID":1,"Batch":1,"Name":"a"}`, `{"ID":1,"Batch":1,"Name":"b"}`, `{"ID":3,"Batch":1,"Name":"b"}`} {
			assert.JSONEq(t, payload, string(all[i].Payload))
		}
	})
}

// A row that was softly deleted before is not deleted again.
func TestSoftDeleteBesideDeletedRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Paper{})
		first, second := &Paper{ID: uuid.New(), Name: "n"}, &Paper{ID: uuid.New(), Name: "n"}
		require.NoError(t, ignoring(g).Create(first).Error)
		require.NoError(t, ignoring(g).Delete(first).Error)
		require.NoError(t, ignoring(g).Create(second).Error)
		require.NoError(t, g.Where("name = ?", "n").Delete(&Paper{}).Error)
		all := events(t, g)
		require.Equal(t, []string{"paper.deleted"}, types(all))
		assert.Equal(t, second.ID.String(), all[0].AggregateID)
		require.NoError(t, g.Where("name = ?", "n").Delete(&Paper{}).Error)
		assert.Len(t, events(t, g), 1)
	})
}

// What the user has returned into one value counts as one row, and all are deleted.
func TestDeleteReturnsIntoOneValue(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "sqlite": testenv.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Item{})
			require.NoError(t, ignoring(g).Create(&[]Item{{ID: 1, Batch: 1}, {ID: 2, Batch: 1}}).Error)
			require.NoError(t, g.Clauses(clause.Returning{}).Where("batch = ?", 1).Delete(&Item{}).Error)
			assert.Equal(t, []string{"item.deleted", "item.deleted"}, types(events(t, g)))
			assert.Zero(t, count(t, g, &Item{}))
		})
	}
}

// An error that comes behind the row, as of what the database returns, undoes the transaction of a user who ignores it.
func TestErrorBehindTheRow(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Account{})
			require.NoError(t, ignoring(g).Create(&Account{ID: 1, Name: "a"}).Error)
			require.NoError(t, g.Exec("UPDATE accounts SET tags = 'no JSON'").Error)
			require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
				require.Error(t, tx.Model(&Account{ID: 1}).Update("name", "b").Error)
				return nil
			}), errTxDone)
			var stored string
			require.NoError(t, g.Raw("SELECT name FROM accounts").Scan(&stored).Error)
			assert.Equal(t, "a", stored)
			assert.Empty(t, events(t, g))
			idle(t, g)
		})
	}
}
