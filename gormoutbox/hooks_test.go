package gormoutbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

var errTxDone = sql.ErrTxDone

var errHook = errors.New("hook says no")

// Hooked has hooks that do what its Do says.
type Hooked struct {
	_    gormoutbox.Emit `outbox:"aggregate=hooked"`
	ID   uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Name string
	Do   string
}

func (h *Hooked) BeforeCreate(*gorm.DB) error {
	switch h.Do {
	case "fail before":
		return errHook
	case "panic before":
		panic("hook")
	case "key":
		h.ID = uuid.Must(uuid.NewV7())
	}
	return nil
}

func (h *Hooked) AfterCreate(tx *gorm.DB) error {
	switch h.Do {
	case "fail after":
		return errHook
	case "update":
		return tx.Model(h).Update("name", "from the hook").Error
	}
	return nil
}

func TestHooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Hooked{})
			clean := func() {
				require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Hooked{}).Error)
				require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			}
			row := func(do string) *Hooked { return &Hooked{ID: uuid.New(), Name: "a", Do: do} }
			clean()

			require.ErrorIs(t, g.Create(row("fail before")).Error, errHook)
			assert.Empty(t, events(t, g))
			assert.Zero(t, count(t, g, &Hooked{}))
			idle(t, g)

			// GORM keeps what was written before a failing hook if nobody asked for a transaction; so do we.
			require.ErrorIs(t, g.Create(row("fail after")).Error, errHook)
			assert.Len(t, events(t, g), count(t, g, &Hooked{}))
			idle(t, g)

			// A user who ignores the error of a hook that ran behind the write has both.
			clean()
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				_ = tx.Create(row("fail after")).Error
				return nil
			}))
			assert.Equal(t, 1, count(t, g, &Hooked{}))
			assert.Len(t, events(t, g), 1)

			clean()
			require.NoError(t, g.Create(row("update")).Error)
			all := events(t, g)
			require.Equal(t, []string{"hooked.created", "hooked.updated"}, types(all))
			assert.Contains(t, string(all[0].Payload), `"Name":"a"`)
			assert.Contains(t, string(all[1].Payload), `"Name":"from the hook"`)

			clean()
			keyed := &Hooked{Do: "key"}
			require.NoError(t, g.Create(keyed).Error)
			require.Len(t, events(t, g), 1)
			assert.Equal(t, keyed.ID.String(), events(t, g)[0].AggregateID)
			idle(t, g)
		}
	})
}

// A hook that panics leaks GORM's transaction, but without one nothing of ours.
func TestPanickingHookLeaksNothingOfOurs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t, &gorm.Config{SkipDefaultTransaction: true})
		use(t, g, gormoutbox.Config{}, &Hooked{})
		assert.Panics(t, func() { g.Create(&Hooked{ID: uuid.New(), Do: "panic before"}) })
		idle(t, g)
		// The same statement again: nothing is left behind on it.
		tx := g.Model(&Hooked{})
		assert.Panics(t, func() { tx.Create(&Hooked{ID: uuid.New(), Do: "panic before"}) })
		tx.Statement.Context = gormoutbox.Ignore(t.Context())
		require.NoError(t, tx.Create(&Hooked{ID: uuid.New()}).Error)
		assert.Empty(t, events(t, g))
		tx.Statement.Context = t.Context()
		require.NoError(t, tx.Create(&Hooked{ID: uuid.New()}).Error)
		assert.Len(t, events(t, g), 1)
		idle(t, g)
	})
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		each(t, func(t *testing.T, db testenv.Database) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) {
				cancel() // between the row and its event
				return []byte("{}"), nil
			}}, &Order{})
			// GORM's own rollback may add that the context has done it already.
			require.ErrorContains(t, g.WithContext(ctx).Create(newOrder()).Error, context.Canceled.Error())
			require.Error(t, g.WithContext(ctx).Create(newOrder()).Error)
			assert.Zero(t, count(t, g, &Order{}))
			assert.Empty(t, events(t, g))
			idle(t, g)
		})
	}
}
