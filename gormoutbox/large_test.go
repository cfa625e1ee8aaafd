package gormoutbox_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Item is one of very many.
type Item struct {
	_     gormoutbox.Emit `outbox:"aggregate=item"`
	ID    int             `gorm:"autoIncrement:false"`
	Batch int
	Name  string `gorm:"size:100"`
}

const manyItems = 50_000

// A statement may write 50,000 rows: their events come in the order of the rows, and not all payloads are in memory at once.
func TestFiftyThousandRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		var s *statements
		made, waiting := 0, 0
		payload := []byte(`{"padding":"` + strings.Repeat("x", 100) + `"}`)
		g := setup(t, db, gormoutbox.Config{Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) {
			made++
			inserts := 0
			for _, line := range s.log {
				if line == "INSERT outbox_events" {
					inserts++
				}
			}
			waiting = max(waiting, made-inserts*1000)
			return append([]byte{}, payload...), nil
		}}, &Item{})
		rows := make([]Item, manyItems)
		for i := range rows {
			rows[i] = Item{ID: i + 1, Name: "n"}
		}
		require.NoError(t, ignoring(g).CreateInBatches(&rows, 5000).Error)
		s = watched(t, g)
		require.NoError(t, g.Model(&Item{}).Where("batch = ?", 0).Update("batch", 1).Error)
		assert.Equal(t, manyItems, made)
		assert.Equal(t, 1000, waiting, "payloads that were made and not yet written")

		var found int64
		require.NoError(t, g.Table("outbox_events").Distinct("aggregate_id").Count(&found).Error)
		assert.EqualValues(t, manyItems, found)

		// Slices in their order.
		require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		require.NoError(t, g.Exec("DELETE FROM items").Error)
		s.log, made, waiting = nil, 0, 0
		part := rows[:3000]
		require.NoError(t, g.Create(&part).Error)
		var ids []string
		require.NoError(t, g.Table("outbox_events").Order("seq").Pluck("aggregate_id", &ids).Error)
		require.Len(t, ids, len(part))
		for i, id := range ids {
			require.Equal(t, strconv.Itoa(i+1), id)
		}
		idle(t, g)
	})
}

// Blob has a large payload.
type Blob struct {
	_    gormoutbox.Emit `outbox:"aggregate=blob"`
	ID   uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Data string          `gorm:"size:16000000"`
}

func TestLargePayloads(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Blob{})
		large := strings.Repeat("0123456789", 500_000)
		b := &Blob{ID: uuid.New(), Data: large}
		require.NoError(t, g.Create(b).Error)
		all := events(t, g)
		require.Len(t, all, 1)
		assert.JSONEq(t, `{"ID":"`+b.ID.String()+`","Data":"`+large+`"}`, string(all[0].Payload))

		limited := db.Open(t)
		require.NoError(t, limited.Use(gormoutbox.New(gormoutbox.Config{MaxPayload: 1 << 20})))
		err := limited.Create(&Blob{ID: uuid.New(), Data: large}).Error
		require.EqualError(t, err, "gormoutbox: event field Payload: it has 5000055 bytes and Config.MaxPayload is 1048576; "+
			"send a reference instead of the content, or raise the limit if the broker takes such messages")
		require.Error(t, gormoutbox.Append(limited, gormoutbox.Event{Type: "t", Payload: large}))
		assert.Equal(t, 1, count(t, g, &Blob{}))
		unlimited := db.Open(t)
		require.NoError(t, unlimited.Use(gormoutbox.New(gormoutbox.Config{MaxPayload: -1})))
		require.NoError(t, gormoutbox.Append(unlimited, gormoutbox.Event{Type: "t", Payload: strings.Repeat("x", gormoutbox.DefaultMaxPayload+1)}))
		require.Error(t, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: strings.Repeat("x", gormoutbox.DefaultMaxPayload+1)}))
	})
}

// Ten, Hundred and Thousand make a model of a thousand columns and a key.
type Ten struct{ A, B, C, D, E, F, G, H, I, J int8 }

type Hundred struct {
	A Ten `gorm:"embedded;embeddedPrefix:a_"`
	B Ten `gorm:"embedded;embeddedPrefix:b_"`
	C Ten `gorm:"embedded;embeddedPrefix:c_"`
	D Ten `gorm:"embedded;embeddedPrefix:d_"`
	E Ten `gorm:"embedded;embeddedPrefix:e_"`
	F Ten `gorm:"embedded;embeddedPrefix:f_"`
	G Ten `gorm:"embedded;embeddedPrefix:g_"`
	H Ten `gorm:"embedded;embeddedPrefix:h_"`
	I Ten `gorm:"embedded;embeddedPrefix:i_"`
	J Ten `gorm:"embedded;embeddedPrefix:j_"`
}

type Thousand struct {
	_  gormoutbox.Emit `outbox:"aggregate=thousand"`
	ID int             `gorm:"autoIncrement:false"`
	A  Hundred         `gorm:"embedded;embeddedPrefix:a_"`
	B  Hundred         `gorm:"embedded;embeddedPrefix:b_"`
	C  Hundred         `gorm:"embedded;embeddedPrefix:c_"`
	D  Hundred         `gorm:"embedded;embeddedPrefix:d_"`
	E  Hundred         `gorm:"embedded;embeddedPrefix:e_"`
	F  Hundred         `gorm:"embedded;embeddedPrefix:f_"`
	G  Hundred         `gorm:"embedded;embeddedPrefix:g_"`
	H  Hundred         `gorm:"embedded;embeddedPrefix:h_"`
	I  Hundred         `gorm:"embedded;embeddedPrefix:i_"`
	J  Hundred         `gorm:"embedded;embeddedPrefix:j_"`
}

// TableName implements schema.Tabler.
func (Thousand) TableName() string { return "thousand" }

func TestWideModel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Models: []any{&Thousand{}}}, &Thousand{})
		w := &Thousand{ID: 1}
		w.J.J.J = 9
		require.NoError(t, g.Create(w).Error)
		require.NoError(t, g.Model(&Thousand{}).Where("id = ?", 1).Update("a_a_a", 7).Error)
		all := events(t, g)
		require.Equal(t, []string{"thousand.created", "thousand.updated"}, types(all))
		var got Thousand
		require.NoError(t, json.Unmarshal(all[1].Payload, &got))
		w.A.A.A = 7
		assert.Equal(t, *w, got)
	})
}

// Reserved has a table and columns with names that need quotes.
type Reserved struct {
	_      gormoutbox.Emit `outbox:"aggregate=reserved"`
	Key    string          `gorm:"column:key;primaryKey;size:200"`
	Select string          `gorm:"column:select"`
	Order  int             `gorm:"column:order"`
	Group  *string         `gorm:"column:group"`
	Spaced string          `gorm:"column:with space"`
	Umlaut string          `gorm:"column:größe"`
}

// TableName implements schema.Tabler.
func (Reserved) TableName() string { return "table" }

func TestReservedNamesAndStrangeKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Reserved{})
		for _, key := range []string{`it's`, `say "hi"`, "back`tick", `a\b`, "a|b", "a?b", "$1", "💡🇺🇦", "line\nbreak", " padded ", "%_", "{x}", "null", "''", `"`} {
			r := &Reserved{Key: key, Select: "s", Spaced: "sp", Umlaut: "u"}
			require.NoError(t, g.Create(r).Error, key)
			require.NoError(t, g.Model(r).Update("order", 2).Error, key)
			require.NoError(t, g.Where(map[string]any{"key": key}).Delete(&Reserved{}).Error, key)
			var all []storedEvent
			require.NoError(t, g.Table("outbox_events").Where("aggregate_id = ?", key).Order("seq").Find(&all).Error)
			require.Equal(t, []string{"reserved.created", "reserved.updated", "reserved.deleted"}, types(all), key)
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		}
		// NUL is in no text of PostgreSQL: refused everywhere, before the write.
		_, ok := isEvent(g.Create(&Reserved{Key: "a\x00b"}).Error)
		assert.True(t, ok)
		assert.Zero(t, count(t, g, &Reserved{}))
	})
}
