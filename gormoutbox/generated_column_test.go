package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Sum has columns that the database computes.
type Sum struct {
	_      gormoutbox.Emit `outbox:"aggregate=sum"`
	ID     int             `gorm:"autoIncrement:false"`
	Half   int
	Whole  int `gorm:"->"`
	Double int `gorm:"->"`
}

// A generated column is in the event, whatever the letters of its name.
func TestGeneratedColumn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		virtual := "VIRTUAL"
		if db.Name == "postgres" {
			virtual = "STORED" // the server has no other
		}
		require.NoError(t, g.Exec("CREATE TABLE sums (id INT PRIMARY KEY, half INT, "+
			"WHOLE INT GENERATED ALWAYS AS (2 * half) STORED, "+g.Statement.Quote("double")+" INT GENERATED ALWAYS AS (4 * half) "+virtual+")").Error)
		row := &Sum{ID: 1, Half: 2}
		require.NoError(t, g.Create(row).Error)
		require.NoError(t, g.Model(row).Update("half", 3).Error)
		require.NoError(t, g.Delete(row).Error)
		all := events(t, g)
		require.Len(t, all, 3)
		assert.JSONEq(t, `{"ID":1,"Half":2,"Whole":4,"Double":8}`, string(all[0].Payload))
		assert.JSONEq(t, `{"ID":1,"Half":3,"Whole":6,"Double":12}`, string(all[1].Payload))
		assert.JSONEq(t, `{"ID":1,"Half":3,"Whole":6,"Double":12}`, string(all[2].Payload))
	})
}
