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

// A commit that fails wakes nobody, and a Recorder keeps its events.
func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, skip := range []bool{false, true} {
				g := fresh(t).Open(t, &gorm.Config{SkipDefaultTransaction: skip})
				use(t, g, gormoutbox.Config{})
				require.NoError(t, g.Exec("DROP TABLE IF EXISTS parcels").Error)
				require.NoError(t, g.Exec("DROP TABLE IF EXISTS cities").Error)
				require.NoError(t, g.Exec("CREATE TABLE cities (name TEXT PRIMARY KEY)").Error)
				// Looked at by the commit.
				require.NoError(t, g.Exec("CREATE TABLE parcels (id CHAR(36) PRIMARY KEY, "+
					"city TEXT REFERENCES cities (name) DEFERRABLE INITIALLY DEFERRED)").Error)
				p, err := gormoutbox.On(g)
				require.NoError(t, err)
				s := p.Subscribe()
				defer s.Close()

				parcel := newParcel()
				require.Error(t, g.Create(parcel).Error)
				assert.Empty(t, signals(s))
				assert.Len(t, parcel.RecordedEvents(), 1)
				assert.Zero(t, count(t, g, &Parcel{}))
				assert.Empty(t, events(t, g))
				idle(t, g)

				require.NoError(t, g.Exec("INSERT INTO cities VALUES ('Rome')").Error)
				require.NoError(t, g.Create(parcel).Error)
				assert.Equal(t, "committed", signals(s))
				assert.Empty(t, parcel.RecordedEvents())
				assert.Len(t, events(t, g), 1)
				require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			}
		})
	}
}

// Without GORM's transactions each write of a statement that is used again has a transaction of its own.
func TestStatementUsedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t, &gorm.Config{SkipDefaultTransaction: true})
		use(t, g, gormoutbox.Config{}, &Hooked{})
		tx := g.Model(&Hooked{})
		for range 3 {
			require.NoError(t, tx.Create(&Hooked{ID: uuid.New()}).Error)
		}
		assert.Equal(t, 3, count(t, g, &Hooked{}))
		assert.Len(t, events(t, g), 3)
		idle(t, g)
	})
}

// What GORM rolls back after the events were written wakes nobody.
func TestHookBehindTheEventsFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Hooked{})
		p, err := gormoutbox.On(g)
		require.NoError(t, err)
		s := p.Subscribe()
		defer s.Close()
		require.ErrorIs(t, g.Create(&Hooked{ID: uuid.New(), Do: "fail after"}).Error, errHook)
		assert.Empty(t, signals(s))
		assert.Empty(t, events(t, g))
		require.NoError(t, g.Create(&Hooked{ID: uuid.New()}).Error)
		assert.Equal(t, "committed", signals(s))
	})
}
