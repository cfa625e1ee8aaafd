package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// That a model was found to bypass none says nothing of other tables.
func TestBypassByAModelThatIsKnown(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{Models: []any{&Account{}}}, &Account{}, &plain{})
	for _, id := range []string{"a", "b"} {
		require.NoError(t, g.Create(&plain{ID: id}).Error)
		_, ok := isCapture(g.Table("accounts").Create(&plain{ID: id}).Error)
		assert.True(t, ok)
		tx := g.Model(&plain{}) // as plugins do it
		tx.Statement.Table = "accounts"
		_, ok = isCapture(tx.Create(&plain{ID: id}).Error)
		assert.True(t, ok)
	}
	assert.Zero(t, count(t, g, &Account{}))
}

// A model that is used later takes its table from one that was free before.
func TestBypassOfAModelThatIsUsedLater(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Account{})
	require.NoError(t, g.Create(&AccountDTO{Name: "nobody knows"}).Error)
	require.NoError(t, g.Create(&Account{Name: "a"}).Error)
	_, ok := isCapture(g.Create(&AccountDTO{Name: "b"}).Error)
	assert.True(t, ok)
	assert.Equal(t, 2, count(t, g, &Account{}))
	assert.Len(t, events(t, g), 1)
}

// Where names of tables may be compared without regard to case, another spelling is no way around the model.
func TestBypassInAnotherLetterCase(t *testing.T) {
	t.Parallel()
	sqlServer, _ := testenv.SQLServer(t, nil)
	for name, g := range map[string]*gorm.DB{
		"mysql": testenv.MySQLPath(t).Open(t), "sqlite": testenv.SQLite(t).Open(t), "sqlserver": sqlServer,
	} {
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Models: []any{&Account{}}})))
		_, ok := isCapture(g.Table("ACCOUNTS").Create(&plain{ID: "a"}).Error)
		assert.True(t, ok, name)
	}
}
