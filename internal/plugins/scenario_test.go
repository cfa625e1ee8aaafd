package plugins_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// step is a write that an application makes. There are three rows of one team, in the order of their ids.
type step struct {
	name string
	run  func(tx *gorm.DB, k kind, rows []model) error
	// want are the events: the type and which row, or "new".
	want []string
	// hard says that the rows are deleted also where deletes are soft.
	hard bool
}

func steps() []step {
	return []step{
		{name: "create", want: []string{"created new"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Create(k.fresh(rows[0].base().Team)).Error
		}},
		{name: "create several", want: []string{"created new", "created new"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			team := rows[0].base().Team
			return tx.Create(k.list(k.fresh(team), k.fresh(team))).Error
		}},
		{name: "create with an association", want: []string{"created new", "part.created"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			m := k.fresh(rows[0].base().Team)
			m.base().Parts = []Part{{Label: "part"}}
			return tx.Create(m).Error
		}},
		{name: "save", want: []string{"updated 0"}, run: func(tx *gorm.DB, _ kind, rows []model) error {
			rows[0].base().Name = "saved"
			return tx.Save(rows[0]).Error
		}},
		{name: "save of a new row", want: []string{"upserted new"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Save(k.fresh(rows[0].base().Team)).Error
		}},
		{name: "keyed update", want: []string{"updated 1"}, run: func(tx *gorm.DB, _ kind, rows []model) error {
			return tx.Model(rows[1]).Update("name", "updated").Error
		}},
		{name: "keyed update of a value without other columns", want: []string{"updated 1"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			m := k.blank()
			m.base().ID = rows[1].base().ID
			return tx.Model(m).Updates(map[string]any{"name": "updated"}).Error
		}},
		{name: "keyed update by a struct", want: []string{"updated 1"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			m := k.blank()
			m.base().Name = "by a struct"
			return tx.Model(rows[1]).Updates(m).Error
		}},
		{name: "bulk update", want: []string{"updated 0", "updated 1", "updated 2"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Model(k.blank()).Where("team = ?", rows[0].base().Team).Update("name", "all").Error
		}},
		{name: "bulk update with an expression", want: []string{"updated 0", "updated 2"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Model(k.blank()).Where("id IN ?", []any{rows[0].base().ID, rows[2].base().ID}).
				Update("name", gorm.Expr("upper(name)")).Error
		}},
		{name: "upsert of a row that is there", want: []string{"upserted 2"}, run: func(tx *gorm.DB, _ kind, rows []model) error {
			rows[2].base().Name = "upserted"
			return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(rows[2]).Error
		}},
		{name: "upsert of a new row", want: []string{"upserted new"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(k.fresh(rows[0].base().Team)).Error
		}},
		{name: "association", want: []string{"part.created"}, run: func(tx *gorm.DB, _ kind, rows []model) error {
			return tx.Model(rows[0]).Association("Parts").Append(&Part{Label: "appended"})
		}},
		{name: "delete", want: []string{"deleted 1"}, run: func(tx *gorm.DB, _ kind, rows []model) error {
			return tx.Delete(rows[1]).Error
		}},
		{name: "bulk delete", want: []string{"deleted 0", "deleted 1", "deleted 2"}, run: func(tx *gorm.DB, k kind, rows []model) error {
			return tx.Where("team = ?", rows[0].base().Team).Delete(k.blank()).Error
		}},
		{name: "delete for good", want: []string{"deleted 2"}, hard: true, run: func(tx *gorm.DB, _ kind, rows []model) error {
			return tx.Unscoped().Delete(rows[2]).Error
		}},
	}
}

// way is how an application runs a write.
type way struct {
	name string
	run  func(w world, fn func(tx *gorm.DB) error) error
	// failing ways are those of applications that ignore an error.
	failing bool
}

func ways() []way {
	return []way{
		{name: "alone", run: func(w world, fn func(tx *gorm.DB) error) error { return fn(w.app) }},
		{name: "SkipDefaultTransaction", run: func(w world, fn func(tx *gorm.DB) error) error {
			return fn(w.app.Session(&gorm.Session{SkipDefaultTransaction: true}))
		}},
		{name: "Transaction", run: func(w world, fn func(tx *gorm.DB) error) error {
			return cmp.Or(w.begin, w.app).Transaction(fn)
		}},
		{name: "Transaction, ignoring the error", failing: true, run: func(w world, fn func(tx *gorm.DB) error) error {
			return cmp.Or(w.begin, w.app).Transaction(func(tx *gorm.DB) error {
				_ = fn(tx)
				return nil
			})
		}},
	}
}

// scenario makes every write in every way, once with an outbox that refuses events and once with one that takes them.
func scenario(t *testing.T, w world, k kind) {
	t.Helper()
	for _, way := range ways() {
		if w.only != nil && !slices.Contains(w.only, way.name) {
			continue
		}
		t.Run(way.name, func(t *testing.T) {
			all := steps()
			teams := make([]string, len(all))
			for i := range all {
				teams[i] = newID().String()
				stock(t, w, k, teams[i])
			}
			refuse(t, w)
			for i, s := range all {
				t.Run(s.name+", refused", func(t *testing.T) { refused(t, w, way, k, s, teams[i]) })
			}
			require.NoError(t, w.look.Exec(accepting[w.look.Name()]).Error)
			if way.failing {
				return
			}
			for i, s := range all {
				t.Run(s.name, func(t *testing.T) { made(t, w, way, k, s, teams[i]) })
			}
		})
	}
}

// refuse makes the database of the rows refuse events.
func refuse(t *testing.T, w world) {
	t.Helper()
	for _, stmt := range rejecting[w.look.Name()] {
		require.NoError(t, w.look.Exec(strings.ReplaceAll(stmt, "?", cmp.Or(w.table, gormoutbox.DefaultTable))).Error)
	}
}

// stock makes three rows that no event tells of.
func stock(t *testing.T, w world, k kind, team string) {
	t.Helper()
	rows := []model{k.fresh(team), k.fresh(team), k.fresh(team)}
	require.NoError(t, w.look.Create(k.list(rows...)).Error)
	if w.stocked != nil {
		w.stocked(t, rows)
	}
}

// refused runs the step and asserts that it has left neither a row nor an event.
func refused(t *testing.T, w world, way way, k kind, s step, team string) {
	t.Helper()
	state := func() []string {
		out := []string{fmt.Sprint(len(w.events(t)), " events")}
		if w.also != "" {
			other := w
			other.table = w.also
			out = append(out, fmt.Sprint(len(other.events(t)), " others"))
		}
		for _, m := range k.find(t, w.look, team) {
			out = append(out, asJSON(t, m))
		}
		var parts []Part
		require.NoError(t, w.look.Order("id").Find(&parts).Error)
		for _, p := range parts {
			out = append(out, asJSON(t, p))
		}
		return out
	}
	was := state()
	err := way.run(w, func(tx *gorm.DB) error { return s.run(tx, k, k.find(t, w.look, team)) })
	require.Error(t, err)
	if way.failing {
		require.ErrorIs(t, err, sql.ErrTxDone)
	} else {
		require.ErrorContains(t, err, "rejected")
	}
	assert.Equal(t, was, state())
	w.idle(t)
}

// made runs the step and compares its events with what the database has.
func made(t *testing.T, w world, way way, k kind, s step, team string) {
	t.Helper()
	before := k.find(t, w.look, team)
	had := len(w.events(t))
	require.NoError(t, way.run(w, func(tx *gorm.DB) error { return s.run(tx, k, k.find(t, w.look, team)) }))
	w.idle(t)

	after := k.find(t, w.look, team)
	var got []string
	for _, e := range w.events(t)[had:] {
		if e.AggregateType == "part" {
			got = append(got, e.EventType)
			var p Part
			require.NoError(t, w.look.First(&p, e.AggregateID).Error)
			assert.JSONEq(t, asJSON(t, p), string(e.Payload))
			w.together(t, e, &p)
			continue
		}
		name, truth := "new", model(nil)
		for i, m := range before {
			if m.base().ID == e.id(t) {
				name, truth = fmt.Sprint(i), m
			}
		}
		there := false
		for _, m := range after {
			if m.base().ID == e.id(t) {
				truth, there = m, true
			}
		}
		got = append(got, strings.TrimPrefix(e.EventType, k.aggregate+".")+" "+name)
		require.NotNil(t, truth)
		assert.JSONEq(t, asJSON(t, truth), string(e.Payload), e.EventType)
		deleted := strings.HasSuffix(e.EventType, "deleted")
		assert.Equal(t, there && deleted, e.headers(t)[gormoutbox.HeaderSoftDelete] == "true", "header of a soft delete")
		assert.Equal(t, !deleted || k.soft && !s.hard, there, "the row is there")
		if there {
			w.together(t, e, truth)
		}
	}
	assert.ElementsMatch(t, s.want, got)
	if strings.HasPrefix(s.name, "create with") {
		assert.Equal(t, s.want, got, "the owner comes first")
	}
}

// together asserts that the event was written in the transaction that wrote the row, where the database tells.
func (w world) together(t *testing.T, e event, row any) {
	t.Helper()
	if w.look.Name() != "postgres" {
		return
	}
	var of struct{ Row, Event int64 }
	stmt := &gorm.Statement{DB: w.look}
	require.NoError(t, stmt.Parse(row))
	id := reflect.Indirect(reflect.ValueOf(row)).FieldByName("ID").Interface()
	require.NoError(t, w.look.Raw("SELECT r.xmin::text::bigint AS row, (e.xid::text::bigint % 4294967296) AS event FROM "+
		stmt.Table+" r, "+cmp.Or(w.table, gormoutbox.DefaultTable)+" e WHERE r.id = ? AND e.seq = ?", id, e.Seq).Scan(&of).Error)
	assert.Equal(t, of.Row, of.Event, "the transactions of row and event")
}
