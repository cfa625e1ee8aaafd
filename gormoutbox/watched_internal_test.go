package gormoutbox

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// A transaction that has ended is forgotten, however it ended: otherwise a process would keep each of them.
func TestWatchedTransactionsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{false, true} {
		g := testenv.SQLite(t).Open(t)
		p := New(Config{WatchCommits: commits})
		require.NoError(t, g.Use(p))
		require.NoError(t, Migrate(t.Context(), g))
		remembered := func() (n int) {
			p.hub.watched.Range(func(any, any) bool { n++; return true })
			return n
		}
		event := Event{Type: "t", Payload: "1"}
		back := errors.New("go back")
		during := 0
		write := func(tx *gorm.DB) error { during = remembered(); return Append(tx, event) }

		require.NoError(t, Transaction(g, write))
		assert.Positive(t, during)
		require.ErrorIs(t, Transaction(g, func(tx *gorm.DB) error { return errors.Join(write(tx), back) }), back)
		assert.Panics(t, func() { _ = Transaction(g, func(*gorm.DB) error { panic("fn") }) })
		tx := g.Begin()
		require.NoError(t, write(tx))
		require.NoError(t, tx.Rollback().Error)
		tx = g.Begin()
		require.NoError(t, write(tx))
		require.NoError(t, tx.Commit().Error)
		assert.Zero(t, remembered())
	}
}

type lively struct {
	_    Emit `outbox:"aggregate=lively"`
	ID   int
	Name string `gorm:"uniqueIndex"`
}

// Only while annotated models are written, statements of others look for a capture.
func TestNothingIsLiveBetweenWrites(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	p := New(Config{})
	require.NoError(t, g.Use(p))
	require.NoError(t, Migrate(t.Context(), g))
	require.NoError(t, g.AutoMigrate(&lively{}))
	in, err := p.on(g)
	require.NoError(t, err)
	row := &lively{Name: "a"}
	require.NoError(t, g.Create(row).Error)
	require.Error(t, g.Create(&lively{Name: "a"}).Error, "the database refuses it")
	require.Error(t, g.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"id"}),
	}).Create(&lively{ID: 9, Name: "a"}).Error, "the plugin refuses it")
	require.NoError(t, g.Model(row).Update("name", "b").Error)
	require.NoError(t, g.Delete(row).Error)
	assert.Zero(t, in.live.Load())
}
