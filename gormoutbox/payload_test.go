package gormoutbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type inner struct {
	Shown  string
	Hidden string `outbox:"-"`
	Deeper []*inner
}

type upper string

func (u upper) MarshalJSON() ([]byte, error) { return []byte(`"UPPER"`), nil }

// Base is embedded.
type Base struct {
	ID      int `json:"id"`
	Created time.Time
	Note    string `json:"note,omitempty"`
}

// Document has the tags and types that encoding/json treats in its own ways.
type Document struct {
	_ gormoutbox.Emit `outbox:"aggregate=document"`
	Base
	Note    string    `json:"note"` // wins over Base's
	Number  int64     `json:"number,string"`
	Text    string    `json:",string"`
	Zero    int       `json:",omitempty"`
	ZeroAt  time.Time `json:",omitzero"`
	Set     *bool     `json:"set,omitempty"`
	Not     string    `json:"-"`
	Dash    string    `json:"-,"` //nolint:staticcheck // the name is "-"
	HTML    string    `json:"<&>"`
	Upper   upper     `json:",string"`
	Bytes   []byte
	List    []string       `gorm:"serializer:json"`
	Map     map[string]int `gorm:"serializer:json"`
	Nested  inner          `gorm:"serializer:json"`
	Pointer *inner         `gorm:"serializer:json"`
	Many    []inner        `gorm:"serializer:json"`
	Any     any            `gorm:"serializer:json"`
	At      *time.Time
	Secret  string `outbox:"-"`
	Flat    inner2 `gorm:"embedded;embeddedPrefix:flat_"`
	Address `outbox:"-"`
}

type inner2 struct {
	A string `json:"a"`
	B string `json:"b" outbox:"-"`
}

// The payload is what encoding/json makes of the row, less what is excluded, so
// that a consumer decodes it into the same struct.
func TestPayloadIsTheModelsJSON(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Document{})
		yes, now := true, time.Now().Truncate(time.Second)
		full := &Document{
			Base: Base{ID: 1, Created: now, Note: "lower"}, Note: "n", Number: 7, Text: `t"`, Zero: 0, Set: &yes, Not: "x", Dash: "d", HTML: "<b>&",
			Upper: "u", Bytes: []byte{1, 2}, List: []string{"a"}, Map: map[string]int{"b": 1, "a": 2}, Nested: inner{Shown: "s", Hidden: "secret", Deeper: []*inner{{Shown: "d", Hidden: "secret"}, nil}},
			Pointer: &inner{Shown: "p", Hidden: "secret"}, Many: []inner{{Hidden: "secret"}}, Any: map[string]any{"k": 1.5}, At: &now, Secret: "secret",
			Flat: inner2{A: "a", B: "secret"}, Address: Address{City: "secret"},
		}
		for _, d := range []*Document{full, {Base: Base{ID: 2, Created: now}}} {
			require.NoError(t, g.Create(d).Error)
			var row Document
			require.NoError(t, g.First(&row, d.ID).Error)
			all := events(t, g)
			payload := all[len(all)-1].Payload
			assert.NotContains(t, string(payload), "secret")

			want, err := json.Marshal(&row)
			require.NoError(t, err)
			assert.JSONEq(t, string(bare(t, want)), string(payload))
		}
	})
}

// bare takes the excluded fields out of a document's JSON.
func bare(t *testing.T, text []byte) []byte {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "Hidden")
			for _, x := range v {
				strip(x)
			}
		case []any:
			for _, x := range v {
				strip(x)
			}
		}
	}
	strip(m)
	delete(m, "Secret")
	delete(m, "City")
	delete(m, "Zip")
	if flat, ok := m["Flat"].(map[string]any); ok {
		delete(flat, "b")
	}
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return out
}

// A column that GORM may not read has no value that could be told.
func TestUnreadableFieldIsLeftOut(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Site{})
	require.NoError(t, g.Create(&Site{ID: 1, Home: Address{City: "c", Zip: "z"}, Hidden: "h", Ignored: "i"}).Error)
	require.NoError(t, g.Model(&Site{ID: 1}).Updates(map[string]any{"home_zip": "y", "home_city": "d"}).Error)
	all := events(t, g)
	assert.JSONEq(t, `{"ID":1,"Home":{"City":"c"},"Nick":null}`, string(all[0].Payload))
	assert.JSONEq(t, `{"ID":1,"Home":{"City":"d"},"Nick":null}`, string(all[1].Payload))
	assert.Equal(t, map[string]string{"changed": "home_city"}, all[1].headers(t))
}
