package plugins_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/datatypes"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Locked has an optimistic lock.
type Locked struct {
	_ gormoutbox.Emit `outbox:"aggregate=locked"`
	Base
	Version Version
}

// Flagged, Stamped and Mixed are deleted softly in three ways.
type Flagged struct {
	_ gormoutbox.Emit `outbox:"aggregate=flagged"`
	Base
	Gone DeletedAt `gorm:"softDelete:flag"`
}

// Stamped has the time of its deletion, as a number.
type Stamped struct {
	_ gormoutbox.Emit `outbox:"aggregate=stamped"`
	Base
	DeletedAt DeletedAt `gorm:"type:bigint;softDelete:milli"`
}

// Mixed has a flag and a time.
type Mixed struct {
	_ gormoutbox.Emit `outbox:"aggregate=mixed"`
	Base
	DeletedAt time.Time
	Gone      DeletedAt `gorm:"softDelete:flag,DeletedAtField:DeletedAt"`
}

// Seconds has the time of its deletion in seconds, and a lock.
type Seconds struct {
	_ gormoutbox.Emit `outbox:"aggregate=seconds"`
	Base
	DeletedAt DeletedAt
	Version   Version
}

// Document has the columns of gorm.io/datatypes.
type Document struct {
	_ gormoutbox.Emit `outbox:"aggregate=document"`
	Base
	Meta   datatypes.JSON
	Tags   datatypes.JSONSlice[string]
	Extent datatypes.JSONType[map[string]int]
	Ref    datatypes.UUID
	Day    datatypes.Date
	At     datatypes.Time
	Later  *datatypes.Date
}

var (
	locked = kind{aggregate: "locked", blank: func() model { return &Locked{} }, fill: func(m model) {
		m.(*Locked).Version = Version{Int64: 1, Valid: true}
	}}
	documents = kind{aggregate: "document", blank: func() model { return &Document{} }, fill: func(m model) {
		d := m.(*Document)
		d.Meta, d.Tags = datatypes.JSON(`{"b": [1, 2.50], "a": "ü"}`), datatypes.NewJSONSlice([]string{"x", "y"})
		d.Extent = datatypes.NewJSONType(map[string]int{"w": 1})
		d.Ref = datatypes.UUID(uuid.MustParse("0195d3a0-1111-7222-8333-444455556666"))
		d.Day, d.At = datatypes.Date(time.Date(2026, 2, 28, 15, 4, 5, 6, time.UTC)), datatypes.NewTime(23, 59, 58, 0)
	}}
	mixed = kind{aggregate: "mixed", soft: true, blank: func() model { return &Mixed{} }, fill: func(m model) {
		m.(*Mixed).DeletedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // MariaDB knows no year 1
	}}
)

// Models with columns of plugins that have no callbacks: only their clauses stand beside ours.
func TestColumnTypes(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{
		locked, documents, mixed,
		{aggregate: "flagged", soft: true, blank: func() model { return &Flagged{} }},
		{aggregate: "stamped", soft: true, blank: func() model { return &Stamped{} }},
		{aggregate: "seconds", soft: true, blank: func() model { return &Seconds{} }, fill: func(m model) {
			m.(*Seconds).Version = Version{Int64: 1, Valid: true}
		}},
	} {
		t.Run(k.aggregate, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
				db := newDB(t)
				w := world{look: tables(t, db, gormoutbox.Config{}, k.blank()), app: db.Open(t)}
				require.NoError(t, w.app.Use(quiet(gormoutbox.Config{})))
				scenario(t, w, k)
			})
		})
	}
}

// columnWorld has one row of the kind, without an event.
func columnWorld(t *testing.T, newDB func(testing.TB) testenv.Database, k kind) (world, model) {
	t.Helper()
	db := newDB(t)
	w := world{look: tables(t, db, gormoutbox.Config{}, k.blank()), app: db.Open(t)}
	require.NoError(t, w.app.Use(quiet(gormoutbox.Config{})))
	m := k.fresh("one")
	require.NoError(t, w.look.Create(m).Error)
	return w, k.find(t, w.look, "one")[0]
}

// The version in the payload is that of the row, not the one in memory.
func TestVersionInThePayload(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		w, m := columnWorld(t, newDB, locked)
		version := func(e event) (v int64) {
			var payload struct{ Version int64 }
			require.NoError(t, json.Unmarshal(e.Payload, &payload))
			return payload.Version
		}
		require.NoError(t, w.app.Model(m).Update("name", "a").Error)
		current := locked.find(t, w.look, "one")[0]
		require.NoError(t, w.app.Model(current).Updates(&Locked{Base: Base{Name: "b"}}).Error)
		require.NoError(t, w.app.Model(&Locked{}).Where("team = ?", "one").Update("name", "c").Error)
		require.NoError(t, w.app.Save(locked.find(t, w.look, "one")[0]).Error)
		require.NoError(t, w.app.Transaction(func(tx *gorm.DB) error {
			return tx.Model(locked.find(t, w.look, "one")[0]).Update("name", "d").Error
		}))
		var got []int64
		for _, e := range w.events(t) {
			got = append(got, version(e))
		}
		assert.Equal(t, []int64{2, 3, 4, 5, 6}, got)
		assert.Contains(t, w.events(t)[0].headers(t)[gormoutbox.HeaderChanged], "version")

		fresh := &Locked{Base: Base{ID: newID(), Name: "new", Team: "two"}}
		require.NoError(t, w.app.Create(fresh).Error)
		all := w.events(t)
		assert.EqualValues(t, 1, version(all[len(all)-1]), "a create begins at 1")
		w.idle(t)
	})
}

// An update with a version that is not the row's changes nothing and is no event.
func TestStaleVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		w, m := columnWorld(t, newDB, locked)
		stale := func() *Locked {
			old := *m.(*Locked)
			old.Version = Version{Int64: 9, Valid: true}
			return &old
		}
		row := asJSON(t, m)
		for name, run := range map[string]func(tx *gorm.DB) *gorm.DB{
			"update":            func(tx *gorm.DB) *gorm.DB { return tx.Model(stale()).Update("name", "x") },
			"update by struct":  func(tx *gorm.DB) *gorm.DB { return tx.Model(stale()).Updates(&Locked{Base: Base{Name: "x"}}) },
			"update with where": func(tx *gorm.DB) *gorm.DB { return tx.Model(stale()).Where("team = ?", "one").Update("name", "x") },
			"update of columns": func(tx *gorm.DB) *gorm.DB {
				return tx.Model(stale()).Select("name").Updates(&Locked{Base: Base{Name: "x"}})
			},
		} {
			for _, way := range ways() {
				t.Run(name+" "+way.name, func(t *testing.T) {
					var n int64
					require.NoError(t, way.run(w, func(tx *gorm.DB) error {
						done := run(tx)
						n = done.RowsAffected
						return done.Error
					}))
					assert.Zero(t, n)
				})
			}
		}
		assert.Empty(t, w.events(t))
		assert.JSONEq(t, row, asJSON(t, locked.find(t, w.look, "one")[0]))
		w.idle(t)
	})
}

// A row that is deleted softly is not deleted, nor updated, a second time.
func TestSoftDeletedTwice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		w, m := columnWorld(t, newDB, mixed)
		require.NoError(t, w.app.Delete(m).Error)
		require.Len(t, w.events(t), 1)
		gone := mixed.find(t, w.look, "one")[0]
		assert.JSONEq(t, asJSON(t, gone), string(w.events(t)[0].Payload))
		assert.EqualValues(t, 1, gone.(*Mixed).Gone)

		require.NoError(t, w.app.Delete(gone).Error)
		require.NoError(t, w.app.Where("team = ?", "one").Delete(&Mixed{}).Error)
		require.NoError(t, w.app.Model(&Mixed{Base: Base{ID: gone.base().ID}}).Update("name", "x").Error)
		require.NoError(t, w.app.Model(&Mixed{}).Where("team = ?", "one").Update("name", "x").Error)
		assert.Len(t, w.events(t), 1)

		require.NoError(t, w.app.Unscoped().Model(&Mixed{Base: Base{ID: gone.base().ID}}).Update("gone", 0).Error)
		require.Len(t, w.events(t), 2)
		assert.JSONEq(t, asJSON(t, mixed.find(t, w.look, "one")[0]), string(w.events(t)[1].Payload), "brought back")
		w.idle(t)
	})
}

// The payload of an update by an expression is what the database made of it.
func TestJSONSet(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		w, m := columnWorld(t, newDB, documents)
		path := func(p string) string {
			if w.app.Name() == "postgres" {
				return "{" + p + "}"
			}
			return p
		}
		set := func(value any) datatypesExpression { return datatypes.JSONSet("meta").Set(path("a"), value) }
		require.NoError(t, w.app.Model(m).Update("meta", set("z")).Error)
		require.NoError(t, w.app.Model(&Document{}).Where("team = ?", "one").UpdateColumn("meta", set("zz")).Error)
		require.NoError(t, w.app.Transaction(func(tx *gorm.DB) error {
			return tx.Model(m).Updates(map[string]any{"meta": set("zzz"), "tags": datatypes.NewJSONSlice([]string{"q"})}).Error
		}))
		all := w.events(t)
		require.Len(t, all, 3)
		for i, want := range []string{"z", "zz", "zzz"} {
			var payload struct{ Meta struct{ A string } }
			require.NoError(t, json.Unmarshal(all[i].Payload, &payload))
			assert.Equal(t, want, strings.Trim(payload.Meta.A, `"`))
		}
		assert.JSONEq(t, asJSON(t, documents.find(t, w.look, "one")[0]), string(all[2].Payload))

		refuse(t, w)
		row := asJSON(t, documents.find(t, w.look, "one")[0])
		require.ErrorContains(t, w.app.Model(m).Update("meta", set("never")).Error, "rejected")
		assert.JSONEq(t, row, asJSON(t, documents.find(t, w.look, "one")[0]))
		w.idle(t)
	})
}

type datatypesExpression = *datatypes.JSONSetExpression
