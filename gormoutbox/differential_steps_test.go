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

// diffWhere is a condition.
type diffWhere struct {
	sql  string
	args []any
	or   bool // by Or, with the first one half of it
}

func (d *diffGenerator) where() diffWhere {
	n, name := diffN(d.r), diffName(d.r)
	switch d.r.IntN(7) {
	case 0:
		return diffWhere{sql: "n < ?", args: []any{n}}
	case 1:
		return diffWhere{sql: "n >= ?", args: []any{n}}
	case 2:
		return diffWhere{sql: "name = ?", args: []any{name}}
	case 3:
		return diffWhere{sql: "n = ? OR name = ?", args: []any{n, name}}
	case 4:
		return diffWhere{sql: "n IN ?", args: []any{[]int{n, n + 2}}}
	case 5:
		return diffWhere{sql: "n = ?\nor name = ?", args: []any{n, name}}
	default:
		return diffWhere{sql: "n = ?", args: []any{n}, or: true}
	}
}

func (w diffWhere) on(tx *gorm.DB) *gorm.DB {
	if w.or {
		return tx.Where("name = ?", "one").Or(w.sql, w.args...)
	}
	return tx.Where(w.sql, w.args...)
}

func (w diffWhere) String() string { return fmt.Sprintf("%q %v or=%t", w.sql, w.args, w.or) }

func (d *diffGenerator) updateWhere(s *diffStep) {
	m := d.model(diffPlain)
	key, values, where := m.key(d.r), d.assignments(m), d.where()
	s.text = fmt.Sprintf("%s %s where %s: %s", m.aggregate, diffJSON(key), where, diffJSON(values))
	s.run = func(g *gorm.DB) (int64, error) { return diffResult(where.on(g.Model(key)).Updates(values)) }
}

func (d *diffGenerator) updateMany(s *diffStep) {
	m := d.model(diffPlain)
	keys := make([]any, 2+d.r.IntN(2))
	for i := range keys {
		keys[i] = m.key(d.r)
	}
	list, values, where := m.listOf(keys...), d.assignments(m), d.where()
	delete(values, "code")
	values["n"] = diffN(d.r)
	conditions := d.r.IntN(3) == 0
	s.text = fmt.Sprintf("%s %s %s", m.aggregate, diffJSON(list), diffJSON(values))
	if conditions {
		s.text += " where " + where.String()
	}
	s.run = func(g *gorm.DB) (int64, error) {
		tx := g.Model(list)
		if conditions {
			tx = where.on(tx)
		}
		return diffResult(tx.Updates(values))
	}
}

func (d *diffGenerator) updateBulk(s *diffStep) {
	m := d.model(diffPlain)
	values, where := d.assignments(m), d.where()
	delete(values, "code")
	values["n"] = diffN(d.r)
	how := diffPick(d.r, "where", "where", "global", "limit", "unscoped")
	if m.aggregate == "group" && d.r.IntN(2) == 0 {
		how = "generics"
	}
	s.text = fmt.Sprintf("%s %s %s: %s", how, m.aggregate, where, diffJSON(values))
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "global":
			return diffResult(g.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(m.empty()).Updates(values))
		case "limit": // only MySQL has it
			return diffResult(where.on(g.Model(m.empty())).Order("name").Limit(2).Updates(values))
		case "unscoped":
			return diffResult(where.on(g.Unscoped().Model(m.empty())).UpdateColumns(values))
		case "generics":
			n, err := gorm.G[DiffGroup](g).Where(where.sql, where.args...).Update(g.Statement.Context, "n", values["n"])
			return int64(n), err
		}
		return diffResult(where.on(g.Model(m.empty())).Updates(values))
	}
}

func (d *diffGenerator) updateExpression(s *diffStep) {
	m := d.model(diffPlain)
	key, where, keyed := m.key(d.r), d.where(), d.r.IntN(2) == 0
	column := diffPick(d.r, "n", "n", "name")
	expr := clause.Expr{SQL: "n + ?", Vars: []any{1}}
	switch {
	case column == "name":
		expr = clause.Expr{SQL: "REPLACE(name, ?, ?)", Vars: []any{"o", "0"}}
	case d.r.IntN(3) == 0:
		expr = clause.Expr{SQL: "n - n"}
	}
	s.text = fmt.Sprintf("%s %s keyed=%t where %s: %s = %s %v", m.aggregate, diffJSON(key), keyed, where, column, expr.SQL, expr.Vars)
	s.run = func(g *gorm.DB) (int64, error) {
		if keyed {
			return diffResult(g.Model(key).Update(column, expr))
		}
		return diffResult(where.on(g.Model(m.empty())).UpdateColumn(column, expr))
	}
}

func diffColumns(names ...string) []clause.Column {
	out := make([]clause.Column, len(names))
	for i, name := range names {
		out[i] = clause.Column{Name: name}
	}
	return out
}

// target is the key, another unique column if the model has one, or none.
func (d *diffGenerator) target(m *diffModel, none bool) []clause.Column {
	switch {
	case none && d.r.IntN(2) == 0:
		return nil
	case m.target != "" && d.r.IntN(2) == 0:
		return diffColumns(m.target)
	default:
		return diffColumns(m.primary...)
	}
}

func (d *diffGenerator) upsert(s *diffStep, m *diffModel, oc clause.OnConflict, what string) {
	list := m.listOf(d.rows(m, 4)...)
	value := list
	if l := reflect.ValueOf(list).Elem(); l.Len() == 1 {
		value = l.Index(0).Addr().Interface()
	}
	s.text = fmt.Sprintf("%s %s on %v%s", m.aggregate, diffJSON(value), oc.Columns, what)
	s.run = func(g *gorm.DB) (int64, error) { return diffResult(g.Clauses(oc).Create(value)) }
}

func (d *diffGenerator) upsertNothing(s *diffStep) {
	m := d.model(nil)
	d.upsert(s, m, clause.OnConflict{DoNothing: true, Columns: d.target(m, true)}, " nothing")
}

func (d *diffGenerator) upsertColumns(s *diffStep) {
	m := d.model(diffPlain)
	oc := clause.OnConflict{Columns: d.target(m, false)}
	columns := diffPick(d.r, []string{"name"}, []string{"n"}, []string{"name", "n"})
	if m.target != "" && d.r.IntN(3) == 0 {
		columns = append([]string{m.target}, columns...)
	}
	if m.soft && d.r.IntN(2) == 0 {
		columns = append([]string{"deleted_at"}, columns...)
	}
	if d.r.IntN(6) == 0 {
		columns = append(m.primary[:1:1], columns...)
	}
	what := fmt.Sprint(" update ", columns)
	oc.DoUpdates = clause.AssignmentColumns(columns)
	switch d.r.IntN(5) {
	case 0:
		what += " n = n + 1"
		oc.DoUpdates = append(clause.AssignmentColumns(columns[:1]), clause.Assignment{Column: clause.Column{Name: "n"}, Value: gorm.Expr(m.table + ".n + 1")})
		if columns[0] == "n" {
			oc.DoUpdates = oc.DoUpdates[1:]
		}
	case 1:
		what += " where n < 2"
		oc.Where = clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: m.table + ".n < 2"}}}
	}
	d.upsert(s, m, oc, what)
}

func (d *diffGenerator) upsertAll(s *diffStep) {
	m := d.model(nil)
	d.upsert(s, m, clause.OnConflict{UpdateAll: true, Columns: d.target(m, true)}, " all")
}

func (d *diffGenerator) save(s *diffStep) {
	m := d.model(nil)
	row := d.row(m, 5)
	how := diffPick(d.r, "", "", "Select", "Omit", "Unscoped")
	if !m.plain() {
		how = ""
	}
	s.loose = true // an update and, if that finds nothing, an insert
	s.text = fmt.Sprintf("%s %s %s", how, m.aggregate, diffJSON(row))
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "Select":
			g = g.Select("name", "n")
		case "Omit":
			g = g.Omit("n")
		case "Unscoped":
			g = g.Unscoped()
		}
		return diffResult(g.Save(row))
	}
}

func (d *diffGenerator) saveLoaded(s *diffStep) {
	m := d.model(diffPlain)
	key, other := m.key(d.r), m.row(d.r)
	change := d.r.IntN(4) > 0
	s.loose = true
	s.text = fmt.Sprintf("%s %s change=%t %s", m.aggregate, diffJSON(key), change, diffJSON(other))
	s.run = func(g *gorm.DB) (int64, error) {
		if err := g.First(key).Error; err != nil {
			return 0, err
		}
		if change {
			row, to := reflect.ValueOf(key).Elem(), reflect.ValueOf(other).Elem()
			for _, name := range []string{"Name", "N", "Code", "DiffGroupID"} {
				if f := row.FieldByName(name); f.IsValid() {
					f.Set(to.FieldByName(name))
				}
			}
		}
		return diffResult(g.Save(key))
	}
}

func (d *diffGenerator) saveList(s *diffStep) {
	m := d.model(nil)
	list := m.listOf(d.rows(m, 4)...)
	s.text = fmt.Sprintf("%s %s", m.aggregate, diffJSON(list))
	s.run = func(g *gorm.DB) (int64, error) { return diffResult(g.Save(list)) }
}

func (d *diffGenerator) firstOrCreate(s *diffStep) {
	m := d.model(diffPlain)
	key, values := m.key(d.r), map[string]any{"n": diffN(d.r)}
	s.loose = true
	s.text = fmt.Sprintf("%s %s assign %s", m.aggregate, diffJSON(key), diffJSON(values))
	s.run = func(g *gorm.DB) (int64, error) {
		return diffResult(g.Where(key).Attrs(map[string]any{"name": "two"}).Assign(values).FirstOrCreate(m.empty()))
	}
}

func (d *diffGenerator) softDelete(s *diffStep) {
	m := d.model(diffSoft)
	key, where := m.key(d.r), d.where()
	list := m.listOf(m.key(d.r), m.key(d.r))
	how := diffPick(d.r, "key", "list", "where", "key where", "model")
	s.text = fmt.Sprintf("%s %s %s %s where %s", how, m.aggregate, diffJSON(key), diffJSON(list), where)
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "list":
			return diffResult(g.Delete(list))
		case "where":
			return diffResult(where.on(g).Delete(m.empty()))
		case "key where":
			return diffResult(where.on(g).Delete(key))
		case "model":
			return diffResult(g.Model(key).Delete(m.empty()))
		}
		return diffResult(g.Delete(key))
	}
}

func (d *diffGenerator) restore(s *diffStep) {
	m := d.model(diffSoft)
	key, where, keyed := m.key(d.r), d.where(), d.r.IntN(3) > 0
	values := map[string]any{"deleted_at": nil}
	if d.r.IntN(3) == 0 {
		values["n"] = diffN(d.r)
	}
	s.text = fmt.Sprintf("%s %s keyed=%t where %s: %s", m.aggregate, diffJSON(key), keyed, where, diffJSON(values))
	s.run = func(g *gorm.DB) (int64, error) {
		if keyed {
			return diffResult(g.Unscoped().Model(key).Updates(values))
		}
		return diffResult(where.on(g.Unscoped().Model(m.empty())).Updates(values))
	}
}

func (d *diffGenerator) delete(s *diffStep) {
	m := d.model(nil)
	key, list := m.key(d.r), m.listOf(m.key(d.r), m.key(d.r))
	how := diffPick(d.r, "key", "list", "value", "ids")
	if len(m.primary) > 1 && how == "ids" {
		how = "key"
	}
	var ids []any
	for i := range 2 {
		if how == "ids" {
			ids = append(ids, reflect.ValueOf(list).Elem().Index(i).FieldByName("ID").Interface())
		}
	}
	s.text = fmt.Sprintf("%s %s %s %s", how, m.aggregate, diffJSON(key), diffJSON(list))
	s.run = func(g *gorm.DB) (int64, error) {
		g = g.Unscoped()
		switch how {
		case "list":
			return diffResult(g.Delete(list))
		case "value":
			return diffResult(g.Delete(reflect.ValueOf(key).Elem().Interface()))
		case "ids":
			return diffResult(g.Where("id IN ?", ids).Delete(m.empty()))
		}
		return diffResult(g.Delete(key))
	}
}

func (d *diffGenerator) deleteBulk(s *diffStep) {
	m := d.model(diffPlain)
	where := d.where()
	generics := m.aggregate == "group"
	s.text = fmt.Sprintf("%s where %s", m.aggregate, where)
	s.run = func(g *gorm.DB) (int64, error) {
		if generics {
			n, err := gorm.G[DiffGroup](g).Where(where.sql, where.args...).Delete(g.Statement.Context)
			return int64(n), err
		}
		return diffResult(where.on(g.Unscoped()).Delete(m.empty()))
	}
}

func (d *diffGenerator) keyChange(s *diffStep) {
	m := d.model(nil)
	key, values := m.key(d.r), m.rekey(d.r)
	row := m.row(d.r)
	if m.plain() && d.r.IntN(2) == 0 {
		values["n"] = diffN(d.r)
	}
	how := diffPick(d.r, "key", "key", "key", "struct", "where", "expression")
	switch {
	case !m.plain() && how == "where":
		how = "key"
	case how == "expression" && m.aggregate == "coupon":
		values = map[string]any{"code": gorm.Expr("REPLACE(code, ?, ?)", "a", "q")}
	case how == "expression" && m.auto:
		values = map[string]any{"id": gorm.Expr("id + ?", 1)}
	case how == "expression":
		how = "key"
	}
	where := d.where()
	s.text = fmt.Sprintf("%s %s %s %s %s where %s", how, m.aggregate, diffJSON(key), diffJSON(values), diffJSON(row), where)
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "struct":
			return diffResult(g.Omit(clause.Associations).Model(key).Updates(row))
		case "where":
			return diffResult(where.on(g.Model(m.empty())).Updates(values))
		}
		return diffResult(g.Model(key).Updates(values))
	}
}

// ownReturning has a RETURNING clause of the user's. MariaDB has none for updates.
func (d *diffGenerator) ownReturning(s *diffStep) {
	m := d.model(diffPlain)
	key, row, values, where := m.key(d.r), d.row(m, 2), d.assignments(m), d.where()
	how := diffPick(d.r, "create", "delete", "update", "update where")
	s.text = fmt.Sprintf("%s %s %s %s %s where %s", how, m.aggregate, diffJSON(key), diffJSON(row), diffJSON(values), where)
	s.run = func(g *gorm.DB) (int64, error) {
		returning := clause.Returning{}
		switch {
		case how == "create":
			return diffResult(g.Clauses(returning).Create(row))
		case how == "delete":
			return diffResult(g.Unscoped().Clauses(returning).Where(key).Delete(m.list()))
		case g.Name() == "mysql":
			return diffResult(g.Model(key).Updates(values))
		case how == "update":
			return diffResult(g.Model(key).Clauses(returning).Updates(values))
		}
		return diffResult(where.on(g.Model(m.list()).Clauses(returning)).Updates(values))
	}
}

// tree is an owner with associations.
func (d *diffGenerator) tree() *DiffOwner {
	r := d.r
	o := &DiffOwner{ID: diffID(r), Name: diffName(r), N: diffN(r)}
	if r.IntN(3) == 0 {
		o.ID = 0
	}
	o.Children = d.children(r.IntN(4))
	if r.IntN(2) == 0 {
		o.Group = d.group()
	}
	for range r.IntN(3) {
		o.Tags = append(o.Tags, DiffTag{ID: diffText(r)})
	}
	return o
}

func (d *diffGenerator) children(n int) []DiffChild {
	out := make([]DiffChild, n)
	unsaved := d.r.IntN(2) == 0
	for i := range out {
		out[i] = DiffChild{ID: diffID(d.r), Name: diffName(d.r), N: diffN(d.r)}
		if unsaved || d.r.IntN(5) == 0 {
			out[i].ID = 0
		}
	}
	return out
}

func (d *diffGenerator) group() *DiffGroup {
	group := &DiffGroup{ID: diffID(d.r), Name: diffName(d.r), N: diffN(d.r)}
	if d.r.IntN(3) == 0 {
		group.ID = 0
	}
	return group
}

func (d *diffGenerator) createTree(s *diffStep) {
	tree := d.tree()
	upsert := d.r.IntN(3) == 0
	s.loose = true
	s.text = fmt.Sprintf("%s upsert=%t", diffJSON(tree), upsert)
	s.run = func(g *gorm.DB) (int64, error) {
		if upsert {
			g = g.Clauses(clause.OnConflict{UpdateAll: true})
		}
		return diffResult(g.Create(tree))
	}
}

func (d *diffGenerator) saveTree(s *diffStep) {
	id, tree := diffID(d.r), d.tree()
	how := diffPick(d.r, "Save", "Updates", "FullSaveAssociations", "FullSaveAssociations")
	load := d.r.IntN(2) == 0
	s.loose = true
	s.text = fmt.Sprintf("%s %d load=%t %s", how, id, load, diffJSON(tree))
	s.run = func(g *gorm.DB) (int64, error) {
		o := tree
		if load {
			o = &DiffOwner{}
			if err := g.Preload(clause.Associations).First(o, id).Error; err != nil {
				return 0, err
			}
			o.Name = tree.Name
			for i := range o.Children {
				o.Children[i].Name, o.Children[i].N = tree.Name, tree.N
			}
			if o.Group != nil {
				o.Group.Name = tree.Name
			}
		}
		switch how {
		case "Save":
			return diffResult(g.Save(o))
		case "Updates":
			return diffResult(g.Updates(o))
		}
		return diffResult(g.Session(&gorm.Session{FullSaveAssociations: true}).Updates(o))
	}
}

// association draws an association of an owner and values for it.
func (d *diffGenerator) association(s *diffStep, call func(a *gorm.Association, values []any) error) {
	owner := &DiffOwner{ID: diffID(d.r), Name: diffName(d.r)}
	name := diffPick(d.r, "Children", "Children", "Tags", "Group")
	unscoped := d.r.IntN(4) == 0
	var values []any
	switch name {
	case "Children":
		children := d.children(1 + d.r.IntN(3))
		for i := range children {
			values = append(values, &children[i])
		}
	case "Tags":
		for range 1 + d.r.IntN(2) {
			values = append(values, &DiffTag{ID: diffText(d.r)})
		}
	default:
		values = append(values, d.group())
	}
	s.loose = true
	s.text = fmt.Sprintf("%s of owner %d %s unscoped=%t", name, owner.ID, diffJSON(values...), unscoped)
	s.run = func(g *gorm.DB) (int64, error) {
		a := g.Model(owner).Association(name)
		if unscoped {
			a = a.Unscoped()
		}
		return 0, call(a, values)
	}
}

func (d *diffGenerator) associationAppend(s *diffStep) {
	d.association(s, func(a *gorm.Association, values []any) error { return a.Append(values...) })
}

func (d *diffGenerator) associationReplace(s *diffStep) {
	d.association(s, func(a *gorm.Association, values []any) error { return a.Replace(values...) })
}

func (d *diffGenerator) associationDelete(s *diffStep) {
	d.association(s, func(a *gorm.Association, values []any) error { return a.Delete(values...) })
}

func (d *diffGenerator) associationClear(s *diffStep) {
	d.association(s, func(a *gorm.Association, _ []any) error { return a.Clear() })
}

func (d *diffGenerator) deleteTree(s *diffStep) {
	owner := &DiffOwner{ID: diffID(d.r)}
	names := diffPick(d.r, []string{"Children"}, []string{"Tags"}, []string{"Children", "Tags"})
	s.loose = true
	s.text = fmt.Sprintf("owner %d and %v", owner.ID, names)
	s.run = func(g *gorm.DB) (int64, error) { return diffResult(g.Select(names).Delete(owner)) }
}

func (d *diffGenerator) bypass(s *diffStep) {
	m := d.model(diffPlain)
	how := diffPick(d.r, "update", "delete", "create")
	s.bypass = true
	s.text = fmt.Sprintf("%s %s", how, m.table)
	s.run = func(g *gorm.DB) (int64, error) {
		switch how {
		case "update":
			return diffResult(g.Table(m.table).Where("n < ?", 9).Updates(map[string]any{"n": 7}))
		case "delete":
			return diffResult(g.Table(m.table).Where("n < ?", 9).Delete(nil))
		}
		return diffResult(g.Table(m.table).Create(map[string]any{"name": "x", "n": 1}))
	}
}
