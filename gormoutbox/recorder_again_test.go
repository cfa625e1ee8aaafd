package gormoutbox_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// What several saves of one transaction have written is kept until the transaction is committed.
func TestRecorderSavedTwiceInATransaction(t *testing.T) {
	t.Parallel()
	for name, transaction := range map[string]func(g *gorm.DB, fn func(tx *gorm.DB) error) error{
		"plain":  func(g *gorm.DB, fn func(tx *gorm.DB) error) error { return g.Transaction(fn) },
		"helper": func(g *gorm.DB, fn func(tx *gorm.DB) error) error { return gormoutbox.Transaction(g, fn) },
	} {
		each(t, func(t *testing.T, db testenv.Database) {
			g := setup(t, db, gormoutbox.Config{}, &Parcel{})
			p := newParcel()
			twice := func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(p).Error)
				p.moveTo("Oslo")
				return tx.Model(p).Update("city", p.City).Error
			}
			require.ErrorIs(t, transaction(g, func(tx *gorm.DB) error { return errors.Join(twice(tx), errBack) }), errBack)
			recorded := p.RecordedEvents()
			require.Len(t, recorded, 2, name)
			require.NoError(t, g.Create(p).Error)
			assert.Empty(t, p.RecordedEvents())
			all := events(t, g)
			require.Len(t, all, 2)
			for i, e := range recorded {
				assert.Equal(t, e.ID.String(), all[i].ID)
			}
		})
	}
}

// An aggregate is filled in as a whole; half of one is a mistake, which the save reports.
func TestRecordedHalfAnAggregate(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Parcel{})
	for field, event := range map[string]gormoutbox.Event{
		"AggregateType": {Type: "t", Payload: "1", AggregateID: "9"},
		"AggregateID":   {Type: "t", Payload: "1", AggregateType: "shop"},
	} {
		p := newParcel()
		p.Record(event)
		e, ok := errors.AsType[*gormoutbox.EventError](g.Create(p).Error)
		require.True(t, ok, field)
		assert.Equal(t, field, e.Field)
		assert.Len(t, p.RecordedEvents(), 2)
	}
	assert.Zero(t, count(t, g, &Parcel{}))
	assert.Empty(t, events(t, g))
}

// Nobody can record on a copy, and a copy can't forget: its events are those of the value that it was made of.
func TestRecorderLeftBehindByACopy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Parcel{})
		p := newParcel()
		require.NoError(t, g.Create(*p).Error)
		assert.Empty(t, events(t, g))
		require.NoError(t, g.Delete(*p).Error)
		assert.Empty(t, events(t, g))
		require.Len(t, p.RecordedEvents(), 1)
		require.NoError(t, g.Create(p).Error)
		assert.Len(t, events(t, g), 1)
		idle(t, g)
	})
}

// Label has a text as its key, which some databases compare without regard to case.
type Label struct {
	_ gormoutbox.Emit `outbox:"aggregate=label,on=none"`
	gormoutbox.Recorder
	Name string `gorm:"primaryKey;size:20"`
	Text string
}

// A row that is met by another spelling of its key is the value's.
func TestRecorderOfAKeyInAnotherLetterCase(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Label{})
			require.NoError(t, g.Create(&Label{Name: "a"}).Error)
			label := &Label{Name: "A"}
			label.Record(gormoutbox.Event{Type: "label.printed", Payload: "1"})
			require.NoError(t, g.Delete(label).Error)
			assert.Equal(t, []string{"label.printed"}, types(events(t, g)))
			assert.Empty(t, label.RecordedEvents())
		})
	}
}
