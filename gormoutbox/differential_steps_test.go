package gormoutbox_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// diffStep is one write, or a transaction of several.
type diffStep struct {
	id   string
	kind string
	text string
	// loose says that it is several statements, which may be partly done, bypass that it is always refused.
	loose, bypass bool
	run           func(g *gorm.DB) (rows int64, err error)

	// mode is how a transaction goes: commit, rollback, nested (a savepoint around each step) or savepoint (all behind
	// the first step is rolled back).
	mode string
	// ignore says that it goes on after an error of a step, read that it begins with a query.
	ignore, read bool
	steps        []*diffStep

	// What came of it.
	done, undone bool
	counted      bool
	rows         int64
	err          error
}

func (s *diffStep) String() string {
	var b strings.Builder
	s.write(&b, "")
	return b.String()
}

func (s *diffStep) write(b *strings.Builder, indent string) {
	outcome := "not reached"
	switch {
	case s.err != nil:
		outcome = strings.ReplaceAll(s.err.Error(), "\n", "; ")
	case s.undone:
		outcome = "rolled back"
	case s.done:
		outcome = fmt.Sprint(s.rows, " rows")
	}
	if s.mode != "" {
		fmt.Fprintf(b, "%s%s transaction: %s, ignore=%t, read=%t → %s\n", indent, s.id, s.mode, s.ignore, s.read, outcome)
		for _, child := range s.steps {
			child.write(b, indent+"    ")
		}
		return
	}
	fmt.Fprintf(b, "%s%s %s: %s → %s\n", indent, s.id, s.kind, s.text, outcome)
}

// leaves are the writes in it.
func (s *diffStep) leaves() []*diffStep {
	if s.mode == "" {
		return []*diffStep{s}
	}
	var all []*diffStep
	for _, child := range s.steps {
		all = append(all, child.leaves()...)
	}
	return all
}

// diffGenerator makes steps from random numbers. A step draws nothing while it runs.
type diffGenerator struct {
	r      *rand.Rand
	models []*diffModel
}

// steps makes n steps, some of which are transactions.
func (d *diffGenerator) steps(prefix string, n int) []*diffStep {
	out := make([]*diffStep, n)
	for i := range out {
		id := fmt.Sprintf("%s.%d", prefix, i+1)
		if d.r.IntN(4) > 0 {
			out[i] = d.leaf(id)
			continue
		}
		out[i] = d.transaction(id, 2)
	}
	return out
}

func (d *diffGenerator) transaction(id string, depth int) *diffStep {
	r := d.r
	s := &diffStep{id: id, mode: diffPick(r, "commit", "commit", "commit", "rollback", "nested", "savepoint"), ignore: r.IntN(3) > 0, read: r.IntN(2) == 0}
	for i := range 2 + r.IntN(3) {
		child := fmt.Sprintf("%s.%d", id, i+1)
		if depth > 1 && s.mode != "savepoint" && r.IntN(6) == 0 {
			s.steps = append(s.steps, d.transaction(child, depth-1))
		} else {
			s.steps = append(s.steps, d.leaf(child))
		}
	}
	return s
}

// diffKind makes steps of one kind.
type diffKind struct {
	name   string
	weight int
	make   func(d *diffGenerator, s *diffStep)
}

func diffKinds() []diffKind {
	return []diffKind{
		{"create", 6, (*diffGenerator).create},
		{"create batch", 4, (*diffGenerator).createBatch},
		{"create map", 3, (*diffGenerator).createMap},
		{"update", 6, (*diffGenerator).update},
		{"update where", 3, (*diffGenerator).updateWhere},
		{"update many", 3, (*diffGenerator).updateMany},
		{"update bulk", 4, (*diffGenerator).updateBulk},
		{"update expression", 3, (*diffGenerator).updateExpression},
		{"upsert nothing", 3, (*diffGenerator).upsertNothing},
		{"upsert columns", 5, (*diffGenerator).upsertColumns},
		{"upsert all", 4, (*diffGenerator).upsertAll},
		{"save", 4, (*diffGenerator).save},
		{"save loaded", 3, (*diffGenerator).saveLoaded},
		{"save list", 3, (*diffGenerator).saveList},
		{"first or create", 2, (*diffGenerator).firstOrCreate},
		{"soft delete", 4, (*diffGenerator).softDelete},
		{"restore", 4, (*diffGenerator).restore},
		{"delete", 4, (*diffGenerator).delete},
		{"delete bulk", 2, (*diffGenerator).deleteBulk},
		{"key change", 5, (*diffGenerator).keyChange},
		{"own returning", 2, (*diffGenerator).ownReturning},
		{"create tree", 4, (*diffGenerator).createTree},
		{"save tree", 3, (*diffGenerator).saveTree},
		{"association append", 3, (*diffGenerator).associationAppend},
		{"association replace", 3, (*diffGenerator).associationReplace},
		{"association delete", 5, (*diffGenerator).associationDelete},
		{"association clear", 2, (*diffGenerator).associationClear},
		{"delete tree", 2, (*diffGenerator).deleteTree},
		{"bypass", 1, (*diffGenerator).bypass},
	}
}

func (d *diffGenerator) leaf(id string) *diffStep {
	kinds := diffKinds()
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := d.r.IntN(total)
	s := &diffStep{id: id}
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			s.kind = k.name
			k.make(d, s)
			break
		}
	}
	session := diffPick(d.r, "", "", "", "", "", "", "SkipDefaultTransaction", "PrepareStmt")
	if session != "" {
		s.text += " with " + session
	}
	run := s.run
	s.run = func(g *gorm.DB) (int64, error) {
		g = g.WithContext(gormoutbox.WithHeaders(g.Statement.Context, map[string]string{"step": id}))
		switch session {
		case "SkipDefaultTransaction":
			g = g.Session(&gorm.Session{SkipDefaultTransaction: true})
		case "PrepareStmt":
			g = g.Session(&gorm.Session{PrepareStmt: true})
		}
		return run(g)
	}
	return s
}

func (d *diffGenerator) model(fits func(*diffModel) bool) *diffModel {
	for {
		m := diffPick(d.r, d.models...)
		if fits == nil || fits(m) {
			return m
		}
	}
}

func diffPlain(m *diffModel) bool { return m.plain() }
func diffSoft(m *diffModel) bool  { return m.soft }

// row is a row of the model that mostly has its key, if the database can make it.
func (d *diffGenerator) row(m *diffModel, keyless int) any {
	row := m.row(d.r)
	if m.auto && d.r.IntN(keyless) == 0 {
		reflect.ValueOf(row).Elem().FieldByName("ID").SetZero()
	}
	return row
}

func (d *diffGenerator) rows(m *diffModel, keyless int) []any {
	rows := make([]any, 1+d.r.IntN(4))
	mixed := d.r.IntN(4) == 0
	without := d.r.IntN(keyless) == 0
	for i := range rows {
		rows[i] = m.row(d.r)
		if m.auto && (mixed && d.r.IntN(2) == 0 || !mixed && without) {
			reflect.ValueOf(rows[i]).Elem().FieldByName("ID").SetZero()
		}
	}
	return rows
}

func diffJSON(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}

func diffResult(tx *gorm.DB) (int64, error) { return tx.RowsAffected, tx.Error }

func (d *diffGenerator) create(s *diffStep) {
	m := d.model(nil)
	row := d.row(m, 2)
	// GORM panics on a value that can't take its times.
	value := (m.aggregate == "cell" || m.aggregate == "tag") && d.r.IntN(3) == 0
	generics := m.aggregate == "group" && d.r.IntN(3) == 0
	s.text = fmt.Sprintf("%s %s value=%t generics=%t", m.aggregate, diffJSON(row), value, generics)
	s.run = func(g *gorm.DB) (int64, error) {
		if generics {
			return 1, gorm.G[DiffGroup](g).Create(g.Statement.Context, row.(*DiffGroup))
		}
		if value {
			return diffResult(g.Create(reflect.ValueOf(row).Elem().Interface()))
		}
		return diffResult(g.Create(row))
	}
}

func (d *diffGenerator) createBatch(s *diffStep) {
	m := d.model(nil)
	rows := d.rows(m, 2)
	list := m.listOf(rows...)
	how := diffPick(d.r, "Create", "CreateInBatches", "CreateBatchSize", "Select")
	s.loose = strings.HasPrefix(how, "CreateIn") || how == "CreateBatchSize" // with SkipDefaultTransaction
	s.text = fmt.Sprintf("%s %s %s", how, m.aggregate, diffJSON(list))
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "CreateInBatches":
			return diffResult(g.CreateInBatches(list, 2))
		case "CreateBatchSize":
			return diffResult(g.Session(&gorm.Session{CreateBatchSize: 2}).Create(list))
		case "Select":
			return diffResult(g.Select("*").Omit("N").Create(list))
		}
		return diffResult(g.Create(list))
	}
}

func (d *diffGenerator) createMap(s *diffStep) {
	m := d.model(diffPlain)
	one := func() map[string]any {
		values := map[string]any{"name": diffName(d.r), "n": diffN(d.r)}
		if m.aggregate == "coupon" || m.aggregate == "parcel" {
			values["code"] = diffText(d.r)
		}
		switch {
		case m.aggregate == "cell":
			values["shelf"], values["no"] = 1+d.r.IntN(2), diffText(d.r)
		case m.aggregate == "doc":
			values["id"] = diffText(d.r)
		case d.r.IntN(2) == 0:
			values["id"] = diffID(d.r)
		}
		return values
	}
	var dest any
	switch d.r.IntN(4) {
	case 0:
		dest = one()
	case 1:
		dest = new(one())
	case 2:
		dest = []map[string]any{one(), one()}
	default:
		dest = &[]map[string]any{one(), one()}
	}
	s.text = fmt.Sprintf("%s %T %s", m.aggregate, dest, diffJSON(dest))
	s.run = func(g *gorm.DB) (int64, error) { return diffResult(g.Model(m.empty()).Create(dest)) }
}

// assignments are columns and new values of an update.
func (d *diffGenerator) assignments(m *diffModel) map[string]any {
	values := map[string]any{}
	for len(values) == 0 {
		if d.r.IntN(2) == 0 {
			values["name"] = diffName(d.r)
		}
		if d.r.IntN(2) == 0 {
			values["n"] = diffN(d.r)
		}
		switch {
		case m.aggregate == "parcel" && d.r.IntN(3) == 0:
			values["secret"] = diffName(d.r)
		case m.aggregate == "parcel" && d.r.IntN(3) == 0:
			values["code"] = nil
		case m.aggregate == "parcel" && d.r.IntN(3) == 0:
			values["code"] = diffText(d.r)
		case m.soft && d.r.IntN(5) == 0:
			values["deleted_at"] = time.Date(2020, 1, 1+d.r.IntN(3), 0, 0, 0, 0, time.UTC)
		}
	}
	return values
}

func (d *diffGenerator) update(s *diffStep) {
	m := d.model(diffPlain)
	key := m.key(d.r)
	values := d.assignments(m)
	row := m.row(d.r)
	how := diffPick(d.r, "Update", "Updates map", "Updates struct", "UpdateColumns", "Select Updates", "Updates itself", "dirty")
	s.text = fmt.Sprintf("%s %s %s %s %s", how, m.aggregate, diffJSON(key), diffJSON(values), diffJSON(row))
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "Update":
			return diffResult(g.Model(key).Update("n", reflect.ValueOf(row).Elem().FieldByName("N").Interface()))
		case "Updates map":
			return diffResult(g.Model(key).Updates(values))
		case "Updates struct":
			return diffResult(g.Model(key).Omit(m.primary...).Updates(row))
		case "UpdateColumns":
			return diffResult(g.Model(key).UpdateColumns(values))
		case "Select Updates":
			return diffResult(g.Model(key).Select("name", "n").Updates(row))
		case "Updates itself":
			return diffResult(g.Omit(clause.Associations).Updates(row))
		}
		return diffResult(g.Model(row).Updates(values)) // the value is not the row
	}
}
