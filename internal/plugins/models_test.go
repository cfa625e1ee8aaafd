package plugins_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Base is what all models of these tests have.
type Base struct {
	ID    uuid.UUID `gorm:"type:char(36);primaryKey"`
	Name  string    `gorm:"size:40"`
	Team  string    `gorm:"size:40;index"`
	Parts []Part    `gorm:"polymorphic:Owner"`
}

func (b *Base) base() *Base { return b }

// Part belongs to any of them. The database makes its key, so that it is known to be new when its owner is saved.
type Part struct {
	_         gormoutbox.Emit `outbox:"aggregate=part"`
	ID        uint
	Label     string    `gorm:"size:40"`
	OwnerID   uuid.UUID `gorm:"type:char(36)"`
	OwnerType string    `gorm:"size:40"`
}

// Plain has no column of another plugin.
type Plain struct {
	_ gormoutbox.Emit `outbox:"aggregate=plain"`
	Base
}

// model is a pointer to a struct with a Base.
type model interface{ base() *Base }

// kind is a model under test.
type kind struct {
	// aggregate is the type in the model's tag.
	aggregate string
	blank     func() model
	// fill sets the columns that are the kind's own; may be nil.
	fill func(model)
	// soft says that a delete leaves the row.
	soft bool
}

var plain = kind{aggregate: "plain", blank: func() model { return &Plain{} }}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// fresh is a value that was not saved yet.
func (k kind) fresh(team string) model {
	m := k.blank()
	b := m.base()
	b.ID, b.Name, b.Team = newID(), "new", team
	if k.fill != nil {
		k.fill(m)
	}
	return m
}

// list is a pointer to a slice of the model's type.
func (k kind) list(rows ...model) any {
	t := reflect.TypeOf(k.blank()).Elem()
	list := reflect.New(reflect.SliceOf(t))
	for _, m := range rows {
		list.Elem().Set(reflect.Append(list.Elem(), reflect.ValueOf(m).Elem()))
	}
	return list.Interface()
}

// find returns the rows of the team, also those that are deleted softly, by their ids.
func (k kind) find(t *testing.T, look *gorm.DB, team string) []model {
	t.Helper()
	list := k.list()
	require.NoError(t, look.Unscoped().Where("team = ?", team).Order("id").Find(list).Error)
	v := reflect.ValueOf(list).Elem()
	out := make([]model, v.Len())
	for i := range out {
		out[i] = v.Index(i).Addr().Interface().(model)
	}
	return out
}

// asJSON is the row without its associations, as a payload has it.
func asJSON(t *testing.T, row any) string {
	t.Helper()
	text, err := json.Marshal(row)
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	delete(fields, "Parts")
	text, err = json.Marshal(fields)
	require.NoError(t, err)
	return string(text)
}
