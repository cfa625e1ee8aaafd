package gormoutbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Bell emits the events that it is told to.
type Bell struct {
	_    gormoutbox.Emit `outbox:"aggregate=bell"`
	ID   int             `gorm:"autoIncrement:false"`
	Ring string
}

var rings = map[string][]gormoutbox.Event{
	"id without type": {{AggregateID: "9", Payload: "1"}},
	"type without id": {{AggregateType: "shop", Payload: "1"}},
	"marshalled": {
		{Type: "bell.first", Headers: map[string]string{"own": "1", "both": "event"}},
		{Type: "none"},
		{Type: "shop.rung", AggregateType: "shop", AggregateID: "3"},
	},
}

// OutboxEvents implements gormoutbox.Emitter.
func (b *Bell) OutboxEvents(context.Context, gormoutbox.Change) ([]gormoutbox.Event, error) {
	return rings[b.Ring], nil
}

// An aggregate is filled in as a whole; half of one is a mistake.
func TestEmitterWithHalfAnAggregate(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Bell{})
	for ring, field := range map[string]string{"id without type": "AggregateType", "type without id": "AggregateID"} {
		e, ok := errors.AsType[*gormoutbox.EventError](g.Create(&Bell{ID: 1, Ring: ring}).Error)
		require.True(t, ok, ring)
		assert.Equal(t, field, e.Field, ring)
	}
	assert.Zero(t, count(t, g, &Bell{}))
	assert.Empty(t, events(t, g))
}

// The MarshalFunc is told of each event as it will be, its headers stand below those of the event, and it may leave one out.
func TestEmitterWithMarshalFunc(t *testing.T) {
	t.Parallel()
	marshal := func(_ context.Context, c gormoutbox.Change) ([]byte, error) {
		if c.EventType == "none" {
			return nil, gormoutbox.ErrNoEvent
		}
		c.Headers["made"], c.Headers["both"] = "yes", "marshal"
		return json.Marshal([]string{c.ID.String(), c.EventType, c.AggregateType, c.AggregateID})
	}
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{Marshal: marshal}, &Bell{})
	require.NoError(t, g.Create(&Bell{ID: 7, Ring: "marshalled"}).Error)
	all := events(t, g)
	require.Equal(t, []string{"bell.first", "shop.rung"}, types(all))
	for i, aggregate := range [][]string{{"bell", "7"}, {"shop", "3"}} {
		var told []string
		require.NoError(t, json.Unmarshal(all[i].Payload, &told))
		assert.Equal(t, []string{all[i].ID, all[i].EventType, aggregate[0], aggregate[1]}, told)
		assert.Equal(t, "yes", all[i].headers(t)["made"])
	}
	assert.NotEqual(t, all[0].ID, all[1].ID)
	assert.Equal(t, "1", all[0].headers(t)["own"])
	assert.Equal(t, "event", all[0].headers(t)["both"])
	assert.Equal(t, "marshal", all[1].headers(t)["both"], "of its own event only")
	assert.NotContains(t, all[1].headers(t), "own")
}

// A MarshalFunc that returns nothing at all has made a mistake.
func TestMarshalFuncReturnsNil(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{
		Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) { return nil, nil },
	}, &Order{})
	require.ErrorContains(t, g.Create(newOrder()).Error, "the MarshalFunc returned nil; return ErrNoEvent")
	assert.Zero(t, count(t, g, &Order{}))
}

// Plot has columns in another order than that of their names.
type Plot struct {
	_    gormoutbox.Emit `outbox:"aggregate=plot,before=columns"`
	ID   int             `gorm:"autoIncrement:false"`
	West int
	East int
}

// Changed columns are sorted, however they are found.
func TestChangedColumnsAreSorted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Plot{})
		require.NoError(t, g.Create(&Plot{ID: 1}).Error)
		require.NoError(t, g.Model(&Plot{ID: 1}).Updates(map[string]any{"west": 1, "east": 1}).Error)
		assert.Equal(t, "east,west", events(t, g)[1].headers(t)[gormoutbox.HeaderChanged])
	})
}
