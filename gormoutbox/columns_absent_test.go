package gormoutbox_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Tally has a field that only some queries fill, its table has no such column.
type Tally struct {
	_     gormoutbox.Emit `outbox:"aggregate=tally"`
	ID    int             `gorm:"autoIncrement:false"`
	Name  string
	Total int `gorm:"->;-:migration"`
}

// A field without a column is asked for by no statement, and is in no event.
func TestFieldWithoutColumn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Tally{})
		require.False(t, g.Migrator().HasColumn(&Tally{}, "total"))
		row := &Tally{ID: 1, Name: "a", Total: 7}
		require.NoError(t, g.Create(row).Error)
		require.NoError(t, g.Model(row).Update("name", "b").Error)
		require.NoError(t, g.Delete(row).Error)
		all := events(t, g)
		require.Equal(t, []string{"tally.created", "tally.updated", "tally.deleted"}, types(all))
		assert.JSONEq(t, `{"ID":1,"Name":"a"}`, string(all[0].Payload))
		assert.JSONEq(t, `{"ID":1,"Name":"b"}`, string(all[1].Payload))
		assert.Equal(t, 7, row.Total, "the user's value")
		idle(t, g)
	})
}

// Coin has columns that the database makes, one of a type with a Value method.
type Coin struct {
	_    gormoutbox.Emit `outbox:"aggregate=coin"`
	ID   int
	Mint sql.NullString `gorm:"size:20;default:(lower('ROME'))"`
}

// What GORM puts into a map is the same with and without the plugin.
func TestMapHasWhatTheDatabaseMakes(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "sqlite": testenv.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Coin{})
			with, without := map[string]any{}, map[string]any{}
			require.NoError(t, ignoring(g).Model(&Coin{}).Create(&without).Error)
			require.NoError(t, g.Model(&Coin{}).Create(&with).Error)
			require.Len(t, events(t, g), 1)
			assert.Equal(t, without["mint"], with["mint"])
			assert.Len(t, with, len(without))
		})
	}
}

// Vault has a field with a default that GORM only writes.
type Vault struct {
	_    gormoutbox.Emit `outbox:"aggregate=vault"`
	ID   int
	Code string `gorm:"->:false;<-;size:20;default:(lower('NONE'))"`
}

// What GORM does not read is not taken from the user's value.
func TestUnreadableFieldStaysInTheValue(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Vault{})
	vault := &Vault{Code: "mine"}
	require.NoError(t, g.Create(vault).Error)
	assert.Equal(t, &Vault{ID: 1, Code: "mine"}, vault)
	assert.JSONEq(t, `{"ID":1}`, string(events(t, g)[0].Payload))
}

// A clause that returns everything returns the key too.
func TestUserReturnsAllColumns(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "sqlite": testenv.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Account{})
			all := clause.Returning{Columns: []clause.Column{{Name: "*", Raw: true}}}
			accounts := []Account{{Name: "a"}, {Name: "b"}}
			require.NoError(t, g.Clauses(all).Create(&accounts).Error)
			assert.Equal(t, []string{"account.created", "account.created"}, types(events(t, g)))
		})
	}
}
