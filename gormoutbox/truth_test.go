package gormoutbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Where memory is not the row, the event says what the database holds: contract
// 2. The paths' tests compare every event with its row; here are the values themselves.
func TestMemoryIsNotTheRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, allModels()...)
		quiet := ignoring(g)
		last := func() Account {
			t.Helper()
			all := events(t, g)
			require.NotEmpty(t, all)
			var a Account
			require.NoError(t, json.Unmarshal(all[len(all)-1].Payload, &a))
			return a
		}
		fresh := func() *Account {
			a := &Account{Name: "a", Age: 7, Score: 1}
			require.NoError(t, quiet.Create(a).Error)
			return a
		}

		// 1 dirty fields beside the updated one
		a := fresh()
		a.Name = "dirty"
		require.NoError(t, g.Model(a).Update("age", 8).Error)
		assert.Equal(t, "a", last().Name)
		// 2 Select on Create, 8 defaults of the database
		require.NoError(t, g.Select("Name").Create(&Account{Name: "s", Age: 9}).Error)
		assert.Zero(t, last().Age)
		assert.Equal(t, 18, last().Score)
		assert.Equal(t, "new", last().Status)
		// 3 upsert of one column
		a = fresh()
		a.Age, a.Status = 99, "upserted"
		require.NoError(t, g.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"status"}),
		}).Create(a).Error)
		assert.Equal(t, 7, last().Age)
		assert.Equal(t, "upserted", last().Status)
		// 4 a has-many child that moves and was changed in memory
		pet := Pet{Name: "rex"}
		require.NoError(t, quiet.Create(&pet).Error)
		pet.Name = "dirty"
		require.NoError(t, g.Create(&Person{Name: "p", Pets: []Pet{pet}}).Error)
		all := events(t, g)
		assert.Equal(t, "pet.upserted", all[len(all)-1].EventType)
		assert.Contains(t, string(all[len(all)-1].Payload), `"Name":"rex"`)
		// 5 and 6 expressions
		a = fresh()
		require.NoError(t, g.Model(a).Update("age", gorm.Expr("age + 1")).Error)
		assert.Equal(t, 8, last().Age)
		// 7 a map value of a field with a serializer
		a = fresh()
		require.NoError(t, g.Model(a).Updates(map[string]any{"tags": `["y"]`}).Error)
		assert.Equal(t, []string{"y"}, last().Tags)
		// 9 the precision of the column
		precise := &Account{Name: "t", CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)}
		require.NoError(t, g.Create(precise).Error)
		var row Account
		require.NoError(t, g.First(&row, precise.ID).Error)
		assert.Equal(t, row.CreatedAt.UTC(), last().CreatedAt.UTC())
		// 10 a version that the database counts
		v := &Versioned{Name: "a", Version: 1}
		require.NoError(t, quiet.Create(v).Error)
		require.NoError(t, g.Model(v).Updates(map[string]any{"name": "b"}).Error)
		all = events(t, g)
		assert.JSONEq(t, `{"ID":1,"Name":"b","Version":2}`, string(all[len(all)-1].Payload))
		// 11 a conflict: somebody else's row, no event
		n := len(all)
		require.NoError(t, g.Clauses(clause.OnConflict{DoNothing: true}).Create(&Account{ID: a.ID, Name: "mine"}).Error)
		assert.Len(t, events(t, g), n)
		// the values of a delete are the last row's
		a = fresh()
		require.NoError(t, g.Delete(&Account{ID: a.ID, Name: "dirty"}).Error)
		assert.Equal(t, "a", last().Name)
	})
}

// The database may find "abc" by "ABC"; the event has the row's own key.
func TestKeyInAnotherLetterCase(t *testing.T) {
	t.Parallel()
	db := testenv.MariaDB(t)
	g := setup(t, db, gormoutbox.Config{}, &Tag{}, &Seat{})
	require.NoError(t, g.Create(&Seat{Tenant: 1, No: "abc", Name: "n"}).Error)
	require.NoError(t, g.Model(&Seat{Tenant: 1, No: "ABC"}).Update("name", "m").Error)
	require.NoError(t, g.Delete(&Seat{Tenant: 1, No: "AbC"}).Error)
	for _, e := range events(t, g) {
		assert.Equal(t, "1|abc", e.AggregateID)
	}
	assert.Len(t, events(t, g), 3)

	require.NoError(t, g.Create(&[]Seat{{Tenant: 1, No: "a"}, {Tenant: 1, No: "b"}}).Error)
	require.NoError(t, g.Model(&[]Seat{{Tenant: 1, No: "A"}, {Tenant: 1, No: "B"}}).Update("name", "x").Error)
	require.NoError(t, g.Delete(&[]Seat{{Tenant: 1, No: "A"}, {Tenant: 1, No: "B"}}).Error)
	for _, e := range events(t, g)[5:] {
		assert.Contains(t, []string{"1|a", "1|b"}, e.AggregateID)
	}
	assert.Len(t, events(t, g), 9)
}

// GORM numbers a batch by the field's tag and the server by its variable.
func TestAutoIncrementIncrement(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.MySQLPath(t), gormoutbox.Config{}, &Account{})
	pool, err := g.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(1)
	require.NoError(t, g.Exec("SET SESSION auto_increment_increment = 2").Error)
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
		_, ok := isCapture(tx.Create(&[]Account{{Name: "a"}, {Name: "b"}}).Error)
		assert.True(t, ok)
		return nil // refused before the write, so the transaction is alive
	}))
	assert.Zero(t, count(t, g, &Account{}))
	require.NoError(t, g.Create(&Account{Name: "a"}).Error)
	assert.Len(t, events(t, g), 1)
}

// Keys of several types are read back, and find their rows.
func TestKeyTypes(t *testing.T) {
	t.Parallel()
	type Text struct {
		_    gormoutbox.Emit `outbox:"aggregate=text"`
		ID   string          `gorm:"primaryKey;size:40"`
		Name string
	}
	type Native struct {
		_    gormoutbox.Emit `outbox:"aggregate=native"`
		ID   uuid.UUID       `gorm:"type:uuid;primaryKey"`
		Name string
	}
	type Mixed struct {
		_    gormoutbox.Emit `outbox:"aggregate=mixed"`
		A    uint8           `gorm:"primaryKey;autoIncrement:false"`
		B    uuid.UUID       `gorm:"primaryKey;type:char(36)"`
		Name string
	}
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Text{}, &Mixed{})
		key := uuid.New()
		all := map[string]any{
			`a|b\ "c" 'd'`: &Text{ID: `a|b\ "c" 'd'`}, "7|" + key.String(): &Mixed{A: 7, B: key},
		}
		if db.Name == "postgres" {
			require.NoError(t, g.AutoMigrate(&Native{}))
			all[key.String()] = &Native{ID: key}
		}
		for id, row := range all {
			require.NoError(t, g.Create(row).Error)
			require.NoError(t, g.Model(row).Update("name", "n").Error)
			require.NoError(t, g.Delete(row).Error)
			var n int64
			require.NoError(t, g.Table("outbox_events").Where("aggregate_id = ?", id).Count(&n).Error)
			assert.EqualValues(t, 3, n, id)
		}
	})
}

func TestShardsAndPools(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		require.NoError(t, g.Table("orders_2026").AutoMigrate(&Order{}))
		o := newOrder()
		shard := func() *gorm.DB { return g.Table("orders_2026") }
		require.NoError(t, shard().Create(o).Error)
		require.NoError(t, shard().Model(o).Update("status", "paid").Error)
		require.NoError(t, g.Scopes(func(tx *gorm.DB) *gorm.DB { return tx.Table("orders_2026") }).Delete(o).Error)
		all := events(t, g)
		assert.Equal(t, []string{"order.created", "order.updated", "order.deleted"}, types(all))
		assert.Contains(t, string(all[2].Payload), "paid")
		assert.Zero(t, count(t, g, &Order{}))
	})
}
