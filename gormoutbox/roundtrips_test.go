package gormoutbox_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// What an event costs on the wire, counted on the socket: BEGIN, the write, one INSERT, COMMIT. The MariaDB driver prepares each
// statement unless interpolateParams is set.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, db := range []struct {
		make func(testing.TB) testenv.Database
		// update and bulk have a locked read before and a read after it where UPDATE returns nothing.
		create, update, bulk, remove int
	}{
		{testenv.Postgres, 4, 4, 4, 4},
		{testenv.Postgres18, 4, 4, 4, 4},
		{testenv.MariaDBInterpolate, 4, 5, 6, 4},
		{testenv.MySQLInterpolate, 5, 5, 6, 5},
	} {
		base := db.make(t)
		t.Run(base.Name, func(t *testing.T) {
			t.Parallel()
			database, trips := base.Via(t)
			g := setup(t, database, gormoutbox.Config{}, &Order{})
			pool, err := g.DB()
			require.NoError(t, err)
			pool.SetMaxOpenConns(1)
			counted := func(want int, name string, fn func() error) {
				t.Helper()
				for range 2 { // drivers prepare and describe a statement that is new to a connection
					require.NoError(t, fn(), name)
				}
				trips.Reset()
				require.NoError(t, fn(), name)
				assert.Equal(t, want, trips.Count(), name)
			}
			batch := func(n int) []Order {
				rows := make([]Order, n)
				for i := range rows {
					rows[i] = Order{ID: uuid.New(), Status: "placed"}
				}
				return rows
			}

			counted(db.create, "create", func() error { return g.Create(newOrder()).Error })
			counted(db.create, "create in a transaction", func() error {
				return g.Transaction(func(tx *gorm.DB) error { return tx.Create(newOrder()).Error })
			})
			counted(db.create, "create without GORM's transaction", func() error {
				return g.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(newOrder()).Error
			})
			counted(db.create, "batch of 100", func() error {
				rows := batch(100)
				return g.Create(&rows).Error
			})
			o := newOrder()
			require.NoError(t, g.Create(o).Error)
			n := 0
			counted(db.update, "update", func() error {
				n++
				return g.Model(o).Update("amount", n).Error
			})
			require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Order{}).Error)
			rows := batch(1000)
			require.NoError(t, ignoring(g).CreateInBatches(&rows, 500).Error)
			counted(db.bulk, "update of 1,000 rows", func() error {
				n++
				return g.Model(&Order{}).Where("status = ?", "placed").Update("amount", n).Error
			})
			counted(db.remove, "delete", func() error {
				n++
				return g.Where("id = ?", rows[n].ID).Delete(&Order{}).Error
			})
		})
	}
}

// With PrepareStmt GORM prepares its own statements once; ours are sent as they are.
func TestRoundTripsOfPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB) testenv.Database{testenv.Postgres, testenv.MariaDBInterpolate} {
		base := make(t)
		t.Run(base.Name, func(t *testing.T) {
			t.Parallel()
			count := func(with bool) int {
				database, trips := base.Via(t)
				g := database.Open(t, &gorm.Config{PrepareStmt: true})
				require.NoError(t, g.AutoMigrate(&Order{}))
				if with {
					use(t, g, gormoutbox.Config{}, &Order{})
				}
				pool, err := g.DB()
				require.NoError(t, err)
				pool.SetMaxOpenConns(1)
				for range 2 {
					require.NoError(t, g.Create(newOrder()).Error)
				}
				trips.Reset()
				require.NoError(t, g.Create(newOrder()).Error)
				return trips.Count()
			}
			assert.Equal(t, count(false)+1, count(true))
		})
	}
}
