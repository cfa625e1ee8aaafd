package gormoutbox_test

import (
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

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
