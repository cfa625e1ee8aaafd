package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// SQLite takes the same key twice in one upsert. Each value is compared with what the one before it has made of the row.
func TestUpsertOfAKeyTwice(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Account{})
	require.NoError(t, ignoring(g).Create(&Account{ID: 1, Name: "a"}).Error)
	upsert := func(names ...string) []string {
		t.Helper()
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		accounts := make([]Account, len(names))
		for i, name := range names {
			accounts[i] = Account{ID: 1, Name: name}
		}
		require.NoError(t, g.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"name"}),
		}).Create(&accounts).Error)
		return types(events(t, g))
	}
	require.Equal(t, []string{"account.upserted", "account.upserted"}, upsert("b", "a"), "away and back")
	assert.Contains(t, string(events(t, g)[1].Payload), `"Name":"a"`)
	assert.Equal(t, []string{"account.upserted"}, upsert("b", "b"), "the second has changed nothing")
}
