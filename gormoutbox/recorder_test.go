package gormoutbox_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Parcel records what happens to it, and emits nothing else.
type Parcel struct {
	_ gormoutbox.Emit `outbox:"aggregate=parcel,on=none"`
	gormoutbox.Recorder
	ID   uuid.UUID `gorm:"type:char(36);primaryKey"`
	City string
}

func (p *Parcel) moveTo(city string) {
	p.City = city
	p.Record(gormoutbox.Event{Type: "parcel.moved", Payload: map[string]string{"to": city}})
}

// Shelf emits both its changes and what it records.
type Shelf struct {
	_ gormoutbox.Emit `outbox:"aggregate=shelf"`
	gormoutbox.Recorder
	ID   uint
	Name string
}

func newParcel() *Parcel {
	p := &Parcel{ID: uuid.Must(uuid.NewV7())}
	p.moveTo("Rome")
	return p
}

var errBack = errors.New("go back")

func TestRecorderIsWrittenWithTheSave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Parcel{}, &Shelf{})
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			p := newParcel()
			require.Len(t, p.RecordedEvents(), 1)
			require.NoError(t, g.Create(p).Error)
			assert.Empty(t, p.RecordedEvents(), "forgotten after the commit")
			require.NoError(t, g.Save(p).Error)
			p.moveTo("Oslo")
			p.moveTo("Bern")
			require.NoError(t, g.Model(p).Update("city", p.City).Error)
			p.moveTo("gone")
			require.NoError(t, g.Delete(p).Error)
			all := events(t, g)
			require.Equal(t, []string{"parcel.moved", "parcel.moved", "parcel.moved", "parcel.moved"}, types(all))
			assert.JSONEq(t, `{"to":"Rome"}`, string(all[0].Payload))
			for _, e := range all {
				assert.Equal(t, p.ID.String(), e.AggregateID)
				assert.Equal(t, "parcel", e.AggregateType)
			}

			// The key comes from the database; several values, one without an event.
			shelves := []*Shelf{{Name: "a"}, {Name: "b"}, {Name: "c"}}
			shelves[0].Record(gormoutbox.Event{Type: "shelf.filled", Payload: "1"})
			shelves[2].Record(gormoutbox.Event{Type: "shelf.filled", Payload: "3", AggregateType: "room", AggregateID: "9"})
			require.NoError(t, g.Create(shelves).Error)
			all = events(t, g)[4:]
			require.Equal(t, []string{"shelf.created", "shelf.created", "shelf.created", "shelf.filled", "shelf.filled"}, types(all))
			assert.Equal(t, all[0].AggregateID, all[3].AggregateID)
			assert.Equal(t, "room/9", all[4].AggregateType+"/"+all[4].AggregateID)
			idle(t, g)
		}
	})
}

// A save that fails, writes no row or is rolled back keeps the events, with their ids.
func TestRecorderKeepsWhatWasNotSaved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Parcel{})
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)

			p := newParcel()
			id := p.RecordedEvents()[0].ID
			require.NoError(t, g.Model(p).Update("city", "x").Error) // no such row
			assert.Len(t, p.RecordedEvents(), 1)

			require.NoError(t, g.Exec("ALTER TABLE outbox_events RENAME TO hidden_events").Error)
			require.Error(t, g.Create(p).Error)
			require.NoError(t, g.Exec("ALTER TABLE hidden_events RENAME TO outbox_events").Error)
			assert.Len(t, p.RecordedEvents(), 1)

			require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(p).Error)
				return errBack
			}), errBack)
			require.Len(t, p.RecordedEvents(), 1)

			require.NoError(t, g.Create(p).Error)
			assert.Empty(t, p.RecordedEvents())
			all := events(t, g)
			require.Len(t, all, 1)
			assert.Equal(t, id.String(), all[0].ID)
			require.NoError(t, ignoring(g).Delete(p).Error)
			idle(t, g)
		}
	})
}

// The end of a user's transaction is seen by Transaction and WatchCommits; else the next save looks the events up.
func TestRecorderInTransactions(t *testing.T) {
	t.Parallel()
	begin := map[string]func(g *gorm.DB, fn func(tx *gorm.DB) error) error{
		"plain":   func(g *gorm.DB, fn func(tx *gorm.DB) error) error { return g.Transaction(fn) },
		"helper":  func(g *gorm.DB, fn func(tx *gorm.DB) error) error { return gormoutbox.Transaction(g, fn) },
		"watched": func(g *gorm.DB, fn func(tx *gorm.DB) error) error { return g.Transaction(fn) },
	}
	each(t, func(t *testing.T, db testenv.Database) {
		for name, transaction := range begin {
			g := setup(t, db, gormoutbox.Config{WatchCommits: name == "watched"}, &Parcel{})
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			count := func(want int) {
				t.Helper()
				assert.Len(t, events(t, g), want, name)
			}

			// Saved twice in one transaction, written once.
			p := newParcel()
			require.NoError(t, transaction(g, func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(p).Error)
				p.City = "x"
				return tx.Save(p).Error
			}))
			if name != "plain" {
				assert.Empty(t, p.RecordedEvents(), name)
			}
			require.NoError(t, g.Model(p).Update("city", "y").Error)
			assert.Empty(t, p.RecordedEvents(), name)
			count(1)

			// Taken back by a savepoint, then saved again in the same transaction.
			p.moveTo("Oslo")
			require.NoError(t, transaction(g, func(tx *gorm.DB) error {
				require.ErrorIs(t, tx.Transaction(func(inner *gorm.DB) error {
					require.NoError(t, inner.Save(p).Error)
					return errBack
				}), errBack)
				return tx.Save(p).Error
			}))
			p.City = "z"
			require.NoError(t, g.Save(p).Error)
			assert.Empty(t, p.RecordedEvents(), name)
			count(2)

			// Taken back by a savepoint and not saved again: kept.
			p.moveTo("Bern")
			require.NoError(t, transaction(g, func(tx *gorm.DB) error {
				require.ErrorIs(t, tx.Transaction(func(inner *gorm.DB) error {
					require.NoError(t, inner.Save(p).Error)
					return errBack
				}), errBack)
				return nil
			}))
			count(2)
			assert.Len(t, p.RecordedEvents(), 1, name)
			require.NoError(t, g.Save(p).Error)
			count(3)

			// Rolled back as a whole, by an error and by a panic.
			p.moveTo("Kyiv")
			require.ErrorIs(t, transaction(g, func(tx *gorm.DB) error {
				require.NoError(t, tx.Save(p).Error)
				return errBack
			}), errBack)
			assert.Panics(t, func() {
				_ = transaction(g, func(tx *gorm.DB) error {
					require.NoError(t, tx.Save(p).Error)
					panic("x")
				})
			})
			assert.Len(t, p.RecordedEvents(), 1, name)
			p.City = "w"
			require.NoError(t, g.Save(p).Error)
			count(4)
			assert.Empty(t, p.RecordedEvents(), name)
			idle(t, g)
			require.NoError(t, ignoring(g).Delete(p).Error)
		}
	})
}

// A save that changes nothing is a save: MySQL counts no row then.
func TestRecorderOfAnUnchangedRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Parcel{}, &Shelf{})
		p := newParcel()
		require.NoError(t, g.Create(p).Error)
		p.moveTo("Rome")
		require.NoError(t, g.Save(p).Error)
		p.moveTo("Rome")
		require.NoError(t, g.Model(p).Update("city", "Rome").Error)
		assert.Empty(t, p.RecordedEvents())
		assert.Len(t, events(t, g), 3)

		// What is wrong with an event is said by the save.
		p.Record(gormoutbox.Event{Payload: "no type"})
		_, ok := errors.AsType[*gormoutbox.EventError](g.Save(p).Error)
		assert.True(t, ok)
		assert.Len(t, p.RecordedEvents(), 1)
		assert.Len(t, events(t, g), 3)
		idle(t, g)
	})
}

// A copy of a value has what was recorded before, and from then on a list of its own.
func TestRecorderOfACopy(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Parcel{})
	a := newParcel()
	require.NoError(t, g.Create(a).Error)
	a.moveTo("b")
	a.moveTo("c")
	copied := *a
	require.NoError(t, g.Save(a).Error)
	a.moveTo("d")
	a.moveTo("e")
	require.Len(t, copied.RecordedEvents(), 2)
	assert.Equal(t, map[string]string{"to": "b"}, copied.RecordedEvents()[0].Payload)
	assert.Equal(t, map[string]string{"to": "c"}, copied.RecordedEvents()[1].Payload)
	require.NoError(t, g.Save(a).Error)
	all := events(t, g)
	require.Len(t, all, 5)
	for _, e := range all {
		assert.Equal(t, a.ID.String(), e.AggregateID)
	}
}

// A list may have the same pointer twice.
func TestRecorderTwiceInOneListIsWrittenOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		use(t, g, gormoutbox.Config{}, &Parcel{})
		p := newParcel()
		require.NoError(t, g.Create(p).Error)
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		p.moveTo("Oslo")
		require.NoError(t, g.Delete(&[]*Parcel{p, p}).Error)
		assert.Len(t, events(t, g), 1)
		assert.Empty(t, p.RecordedEvents())
	})
}
