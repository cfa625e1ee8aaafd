package gormoutbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Stock decides itself what its changes are.
type Stock struct {
	_     gormoutbox.Emit `outbox:"aggregate=stock,topic=stocks,version=2,before=values"`
	ID    int             `gorm:"autoIncrement:false"`
	Level int
	Note  string
}

var errStock = errors.New("stock says no")

// OutboxEvents implements gormoutbox.Emitter.
func (s *Stock) OutboxEvents(_ context.Context, c gormoutbox.Change) ([]gormoutbox.Event, error) {
	if s != c.Model {
		return nil, errors.New("the receiver is the row")
	}
	switch s.Note {
	case "fail":
		return nil, errStock
	case "panic":
		panic("stock")
	case "bad":
		return []gormoutbox.Event{{Type: "ok"}, {Type: "bad\x00"}}, nil
	}
	switch {
	case c.Kind == gormoutbox.Updated && c.Before.(*Stock).Level > 0 && s.Level == 0:
		return []gormoutbox.Event{
			{Type: "stock.empty", Headers: map[string]string{"urgent": "yes"}, AvailableAt: time.Now().Add(time.Hour)},
			{Type: "shop.warned", AggregateType: "shop", AggregateID: "1", Topic: "shops", Version: "1", Payload: "w"},
		}, nil
	case c.Kind == gormoutbox.Created:
		return []gormoutbox.Event{{}}, nil
	default:
		return nil, nil
	}
}

func TestEmitter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Stock{})
		s := &Stock{ID: 7, Level: 3}
		require.NoError(t, g.Create(s).Error)
		require.NoError(t, g.Model(s).Update("level", 1).Error)
		require.NoError(t, g.Model(s).Update("level", 0).Error)
		require.NoError(t, g.Delete(s).Error)
		all := events(t, g)
		require.Equal(t, []string{"stock.created", "stock.empty", "shop.warned"}, types(all))
		assert.JSONEq(t, `{"ID":7,"Level":3,"Note":""}`, string(all[0].Payload))
		assert.JSONEq(t, `{"ID":7,"Level":0,"Note":""}`, string(all[1].Payload), "the row's payload where none is given")
		assert.Equal(t, "w", string(all[2].Payload))
		assert.Equal(t, []string{"stock/7", "stock/7", "shop/1"}, []string{
			all[0].AggregateType + "/" + all[0].AggregateID, all[1].AggregateType + "/" + all[1].AggregateID, all[2].AggregateType + "/" + all[2].AggregateID,
		})
		assert.Equal(t, []string{"stocks", "stocks", "shops"}, []string{all[0].Topic, all[1].Topic, all[2].Topic})
		h := all[1].headers(t)
		assert.Equal(t, "yes", h["urgent"])
		assert.Equal(t, "2", h[gormoutbox.HeaderEventVersion])
		assert.Equal(t, "1", all[2].headers(t)[gormoutbox.HeaderEventVersion])
		assert.Equal(t, "level", h[gormoutbox.HeaderChanged])
		assert.JSONEq(t, `{"level":1}`, h[gormoutbox.HeaderPrevious])
		var delayed int64
		require.NoError(t, g.Table("outbox_events").Where("available_at IS NOT NULL").Count(&delayed).Error)
		assert.EqualValues(t, 1, delayed)

		for note, check := range map[string]func(error) bool{
			"fail":  func(err error) bool { return errors.Is(err, errStock) },
			"panic": func(err error) bool { return err != nil },
			"bad":   func(err error) bool { _, ok := errors.AsType[*gormoutbox.EventError](err); return ok },
		} {
			assert.True(t, check(g.Create(&Stock{ID: 8, Note: note}).Error), note)
		}
		assert.Zero(t, count(t, g, &Stock{}))
		assert.Len(t, events(t, g), 3)
		idle(t, g)
	})
}

// Price has the values before an update, but never those that are excluded.
type Price struct {
	_      gormoutbox.Emit `outbox:"aggregate=price,before=values"`
	ID     uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Amount int
	Label  *string
	Secret string `outbox:"-"`
	At     time.Time
}

// Room has only the columns that really changed.
type Room struct {
	_     gormoutbox.Emit `outbox:"aggregate=room,before=columns,key=house"`
	ID    int             `gorm:"autoIncrement:false"`
	House string          `gorm:"size:20"`
	Name  string
}

func TestBefore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Price{}, &Room{})
		p := &Price{ID: uuid.New(), Amount: 1, Secret: "hush", At: time.Now()}
		require.NoError(t, g.Create(p).Error)
		headers := func() map[string]string {
			t.Helper()
			all := events(t, g)
			return all[len(all)-1].headers(t)
		}
		changed := func() string { return headers()[gormoutbox.HeaderChanged] }
		assert.NotContains(t, headers(), gormoutbox.HeaderChanged, "of a create")

		require.NoError(t, g.Model(p).Updates(map[string]any{"amount": 2, "secret": "hush", "at": p.At}).Error)
		assert.Equal(t, "amount", changed())
		assert.JSONEq(t, `{"amount":1}`, headers()[gormoutbox.HeaderPrevious])

		n := len(events(t, g))
		require.NoError(t, g.Model(p).Update("amount", 2).Error)
		assert.Len(t, events(t, g), n, "nothing changed")

		label := "l"
		require.NoError(t, g.Model(&Price{}).Where("amount = ?", 2).Updates(map[string]any{"label": &label, "secret": "new"}).Error)
		assert.Equal(t, "label", changed())
		assert.JSONEq(t, `{"label":null}`, headers()[gormoutbox.HeaderPrevious])
		require.NoError(t, g.Model(p).Update("secret", "other").Error)
		assert.Len(t, events(t, g), n+2, "the row changed")
		assert.Empty(t, changed())
		for _, e := range events(t, g) {
			assert.NotContains(t, string(e.Payload)+e.Headers, "hush")
			assert.NotContains(t, e.Headers, "secret")
		}

		// The aggregate id itself changes.
		require.NoError(t, g.Create(&[]Room{{ID: 1, House: "a", Name: "n"}, {ID: 2, House: "a", Name: "n"}, {ID: 3, House: "b", Name: "n"}}).Error)
		require.NoError(t, g.Model(&Room{}).Where("name = ?", "n").Update("house", "b").Error)
		all := events(t, g)
		all = all[len(all)-2:]
		for _, e := range all {
			assert.Equal(t, "room.updated", e.EventType)
			assert.Equal(t, "b", e.AggregateID)
			assert.Equal(t, "house", e.headers(t)[gormoutbox.HeaderChanged])
			assert.Equal(t, "a", e.headers(t)[gormoutbox.HeaderPreviousAggregateID])
			assert.NotContains(t, e.headers(t), gormoutbox.HeaderPrevious)
		}
		idle(t, g)
	})
}

// A changed primary key is told with the old one; of several rows it can't be.
func TestChangedKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Seat{}, &Versioned{})
		require.NoError(t, g.Create(&[]Seat{{Tenant: 1, No: "a"}, {Tenant: 1, No: "b"}}).Error)
		require.NoError(t, g.Model(&Seat{Tenant: 1, No: "a"}).Update("no", "c|d").Error)
		all := events(t, g)
		require.Len(t, all, 3)
		assert.Equal(t, `1|c\|d`, all[2].AggregateID)
		assert.Equal(t, "1|a", all[2].headers(t)[gormoutbox.HeaderPreviousAggregateID])
		assert.JSONEq(t, `{"Tenant":1,"No":"c|d","Name":""}`, string(all[2].Payload))

		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			_, ok := isCapture(tx.Model(&Seat{}).Where("tenant = ?", 1).Update("tenant", 2).Error)
			assert.True(t, ok)
			return nil
		}))
		// By an expression it is told where the row is returned.
		err := g.Model(&Seat{Tenant: 1, No: "b"}).Update("tenant", gorm.Expr("tenant + 1")).Error
		if strings := map[string]bool{"postgres": true, "sqlite": true}; strings[db.Name] {
			require.NoError(t, err)
			all = events(t, g)
			assert.Equal(t, "2|b", all[3].AggregateID)
			assert.Equal(t, "1|b", all[3].headers(t)[gormoutbox.HeaderPreviousAggregateID])
		} else {
			_, ok := isCapture(err)
			assert.True(t, ok)
			assert.Len(t, events(t, g), 3)
		}
		idle(t, g)
	})
}

// A softly deleted row is told as it is now.
func TestSoftDelete(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Paper{})
		p := &Paper{ID: uuid.New(), Name: "n"}
		require.NoError(t, g.Create(p).Error)
		require.NoError(t, g.Delete(p).Error)
		require.NoError(t, g.Unscoped().Delete(p).Error)
		all := events(t, g)
		require.Equal(t, []string{"paper.created", "paper.deleted", "paper.deleted"}, types(all))
		assert.Equal(t, "true", all[1].headers(t)[gormoutbox.HeaderSoftDelete])
		assert.NotContains(t, string(all[1].Payload), `"DeletedAt":null`)
		assert.NotContains(t, all[2].headers(t), gormoutbox.HeaderSoftDelete)
	})
}

// Ticketed is an Emitter whose payloads a marshaller makes.
type Ticketed struct {
	_      gormoutbox.Emit `outbox:"aggregate=ticketed"`
	ID     int             `gorm:"autoIncrement:false"`
	Secret string          `outbox:"-"`
}

// OutboxEvents implements gormoutbox.Emitter.
func (*Ticketed) OutboxEvents(context.Context, gormoutbox.Change) ([]gormoutbox.Event, error) {
	return []gormoutbox.Event{{Type: "ticketed.one"}, {Type: "ticketed.none"}, {Type: "ticketed.two", Headers: map[string]string{"own": "yes", "kind": "mine"}}}, nil
}

// A marshaller gets each event of an Emitter with its own id and type, may add headers, say that there is no event, and
// start from what the payload would be.
func TestMarshallerOfAnEmitter(t *testing.T) {
	t.Parallel()
	marshal := func(_ context.Context, c gormoutbox.Change) ([]byte, error) {
		if c.EventType == "ticketed.none" {
			return nil, gormoutbox.ErrNoEvent
		}
		c.Headers["kind"], c.Headers["ce_id"], c.Headers["ce_type"] = "default", c.ID.String(), c.EventType
		return c.DefaultPayload()
	}
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{Models: []any{gormoutbox.Annotate(&Ticketed{}, "").Marshal(marshal)}}, &Ticketed{})
	require.NoError(t, g.Create(&Ticketed{ID: 1, Secret: "hush"}).Error)
	all := events(t, g)
	require.Equal(t, []string{"ticketed.one", "ticketed.two"}, types(all))
	for i, e := range all {
		assert.JSONEq(t, `{"ID":1}`, string(e.Payload))
		assert.Equal(t, e.ID, e.headers(t)["ce_id"])
		assert.Equal(t, e.EventType, e.headers(t)["ce_type"])
		assert.Equal(t, []string{"default", "mine"}[i], e.headers(t)["kind"])
	}
	assert.Equal(t, "yes", all[1].headers(t)["own"])
	assert.NotEqual(t, all[0].ID, all[1].ID)

	_, err := gormoutbox.Change{}.DefaultPayload()
	_, ok := isEvent(err)
	assert.True(t, ok)
}
