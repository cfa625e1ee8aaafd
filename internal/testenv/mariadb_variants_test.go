package testenv_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFoundRowsAreCounted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"mysql": 0, "mysql-foundrows": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := constructors[name](t).Open(t)
			require.NoError(t, db.AutoMigrate(&note{}))
			require.NoError(t, db.Create(&note{ID: 1, Text: "same"}).Error)

			update := db.Model(&note{ID: 1}).Update("text", "same")
			require.NoError(t, update.Error)
			assert.Equal(t, want, update.RowsAffected)
		})
	}
}

func TestIncrementSkipsKeys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]int64{"mysql": {1, 2, 3}, "mysql-increment2": {1, 3, 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Every connection of the pool has the setting.
			kind := constructors[name](t)
			require.NoError(t, kind.Open(t).AutoMigrate(&note{}))
			db := kind.Open(t)
			notes := []note{{Text: "a"}, {Text: "b"}, {Text: "c"}}
			require.NoError(t, db.Create(&notes).Error)

			var keys []int64
			require.NoError(t, db.Model(&note{}).Order("id").Pluck("id", &keys).Error)
			assert.Equal(t, want, keys)
			assert.Equal(t, []int64{1, 2, 3}, []int64{notes[0].ID, notes[1].ID, notes[2].ID}, "what GORM believes")
		})
	}
}
