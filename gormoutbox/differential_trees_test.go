package gormoutbox_test

import (
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

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
