package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Made has a text key that the database makes.
type Made struct {
	_    gormoutbox.Emit `outbox:"aggregate=made"`
	ID   string          `gorm:"primaryKey;size:40;default:(-)"`
	Name string
}

// C22: a key by a default of the database is known where the driver returns it.
func TestKeyByDefault(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		require.NoError(t, g.Exec("CREATE TABLE mades (id VARCHAR(40) PRIMARY KEY DEFAULT ("+map[string]string{
			"postgres": "gen_random_uuid()::text", "mysql": "UUID()", "sqlite": "lower(hex(randomblob(16)))",
		}[g.Name()]+"), name TEXT)").Error)
		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			rows := []Made{{Name: "a"}, {Name: "b"}}
			err := tx.Create(&rows).Error
			if db.Name == "mysql" {
				_, ok := isCapture(err)
				assert.True(t, ok, err)
				return nil
			}
			require.NoError(t, err)
			return nil
		}))
		all := events(t, g)
		if db.Name == "mysql" {
			assert.Empty(t, all)
			assert.Zero(t, count(t, g, &Made{}))
			return
		}
		require.Len(t, all, 2)
		for i, name := range []string{"a", "b"} {
			assert.JSONEq(t, `{"ID":"`+all[i].AggregateID+`","Name":"`+name+`"}`, string(all[i].Payload))
		}
	})
}

// C23: without RETURNING PostgreSQL tells no key; it is refused before the write.
func TestPostgresWithoutReturning(t *testing.T) {
	t.Parallel()
	g, err := gorm.Open(postgres.New(postgres.Config{DSN: testenv.Postgres(t).DSN, WithoutReturning: true}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := g.DB()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	use(t, g, gormoutbox.Config{}, &Account{}, &Order{})
	_, ok := isCapture(g.Create(&Account{Name: "a"}).Error)
	assert.True(t, ok)
	assert.Zero(t, count(t, g, &Account{}))
	require.NoError(t, g.Create(newOrder()).Error)
	assert.Len(t, events(t, g), 1)
}

// C30: names of events do not depend on how tables are named.
func TestNamingStrategy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t, &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: "app_", SingularTable: true}})
		use(t, g, gormoutbox.Config{}, &Order{})
		o := newOrder()
		require.NoError(t, g.Create(o).Error)
		require.NoError(t, g.Model(o).Update("status", "paid").Error)
		_, ok := isCapture(g.Table("app_order").Where("1 = 1").Updates(map[string]any{"status": "x"}).Error)
		assert.True(t, ok)
		assert.Equal(t, []string{"order.created", "order.updated"}, types(events(t, g)))
	})
}

// A09: appending a map creates from a map.
func TestAssociationAppendMap(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Company{}, &Person{}, &Pet{}, &Toy{}, &Lang{})
		p := &Person{ID: 1}
		require.NoError(t, ignoring(g).Create(p).Error)
		require.NoError(t, g.Model(p).Association("Pets").Append(map[string]any{"name": "rex"}))
		assert.Equal(t, []string{"pet.created"}, types(events(t, g)))
	})
}

// D14: rows that the database itself deletes are not seen. This is documented.
func TestCascadeIsNotSeen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Seat{}, &Account{})
		require.NoError(t, g.Exec("CREATE TABLE parts (id INT PRIMARY KEY, name VARCHAR(20), whole_id INT, FOREIGN KEY (whole_id) REFERENCES parts (id) ON DELETE CASCADE)").Error)
		require.NoError(t, g.Create(&[]Part{{ID: 1}, {ID: 2, WholeID: new(1)}}).Error)
		require.NoError(t, g.Delete(&Part{ID: 1}).Error)
		assert.Zero(t, count(t, g, &Part{}))
		assert.Equal(t, []string{"part.created", "part.created", "part.deleted"}, types(events(t, g)))
	})
}

// Part is deleted with its whole by the database.
type Part struct {
	_       gormoutbox.Emit `outbox:"aggregate=part"`
	ID      int             `gorm:"autoIncrement:false"`
	Name    string
	WholeID *int
}
