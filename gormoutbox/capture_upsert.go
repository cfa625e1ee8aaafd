package gormoutbox

import (
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

const upsertCure = "save the row by itself (associations: Omit(clause.Associations) and save them apart), or use gormoutbox.Ignore(ctx) to write without an event"

// checkConflict admits upserts of which the outcome can be told. done says that it has also decided how;
// otherwise the statement is as good as a plain INSERT.
func (in *instance) checkConflict(db *gorm.DB, c *capture, elems []reflect.Value, set int, swap bool) (done bool, err error) {
	oc, ok := db.Statement.Clauses["ON CONFLICT"].Expression.(clause.OnConflict)
	if !ok {
		return false, in.fail(db, c, "its ON CONFLICT clause is not GORM's", "use clause.OnConflict")
	}
	for _, f := range c.model.primary {
		for _, a := range oc.DoUpdates {
			if a.Column.Name == f.DBName && !sameExcluded(a, f.DBName) {
				return false, in.fail(db, c, "it changes the primary key", upsertCure)
			}
		}
	}
	switch {
	case in.traits.DuplicateKey:
		return in.checkDuplicate(db, c, oc, elems, set)
	case in.traits.Output:
		return in.checkMerge(db, c, oc, set)
	}
	if !swap {
		return false, in.fail(db, c, "it is an upsert and its rows are not returned to the plugin", upsertCure)
	}
	c.conflict = true
	if oc.DoNothing || oc.UpdateAll && !in.updatesSome(db, c.model) {
		return false, nil // only inserted rows are returned
	}
	// Associations are saved like this with each save of their owner, mostly without a change.
	if !oc.UpdateAll && targetsPrimaryKey(c.model, oc) && set > 0 {
		var keys []rowKey
		for _, k := range c.keys {
			if k.set() {
				keys = append(keys, k)
			}
		}
		found, err := in.read(db, c.model, keys, readOptions{unscoped: true, lock: true})
		if err != nil {
			return false, err
		}
		c.held = found
		for _, a := range oc.DoUpdates {
			c.changed = append(c.changed, a.Column.Name)
		}
	}
	return false, nil
}

// upserted gives the rows that an upsert returned their kinds, and leaves out those that it found with its values.
func (in *instance) upserted(c *capture, changes []change) []change {
	oc, _ := c.stmt.Clauses["ON CONFLICT"].Expression.(clause.OnConflict)
	if oc.DoNothing {
		return changes // returned means inserted
	}
	had := make(map[string]bool, len(c.keys))
	for _, k := range c.keys {
		if k.set() {
			had[k.identity] = true
		}
	}
	byKey := targetsPrimaryKey(c.model, oc)
	for i := range changes {
		// One row for each value, in their order, unless the upsert has a condition.
		inserted := byKey && !had[changes[i].identity]
		if len(changes) == len(c.keys) {
			inserted = byKey && !c.keys[i].set()
		}
		if !inserted {
			changes[i].kind = Upserted
		}
	}
	before := make(map[string]rowValue, len(c.held))
	for _, rv := range c.held {
		before[rv.identity] = rv
	}
	return slices.DeleteFunc(changes, func(ch change) bool {
		was, ok := before[ch.identity]
		return ok && ch.kind == Upserted && c.unchanged(was, ch.rowValue)
	})
}

// unchanged says whether an upsert of some columns found the row with their values.
func (c *capture) unchanged(was, now rowValue) bool {
	for _, name := range c.changed {
		f := c.model.schema.LookUpField(name)
		if f == nil || !sameValue(c.stmt, f, was.row, now.row) {
			return false
		}
	}
	return true
}

// updatesSome says whether GORM finds a column to update for UpdateAll. Without one it does nothing.
func (in *instance) updatesSome(db *gorm.DB, m *model) bool {
	columns, restricted := db.Statement.SelectAndOmitColumns(true, true)
	for _, name := range m.schema.DBNames {
		f := m.schema.LookUpField(name)
		selected, known := columns[name]
		if f.PrimaryKey || f.AutoCreateTime != 0 || known && !selected || !known && restricted {
			continue
		}
		if !f.HasDefaultValue || f.DefaultValueInterface != nil || strings.EqualFold(f.DefaultValue, "NULL") {
			return true
		}
	}
	return false
}

// sameExcluded says whether the assignment writes the key's own value, as UpdateAll does.
func sameExcluded(a clause.Assignment, name string) bool {
	col, ok := a.Value.(clause.Column)
	return ok && col.Table == "excluded" && col.Name == name
}

// targetsPrimaryKey says whether only the primary key can be the conflict, where the database has a target.
func targetsPrimaryKey(m *model, oc clause.OnConflict) bool {
	if oc.OnConstraint != "" {
		return false
	}
	if len(oc.Columns) == 0 {
		return oc.UpdateAll // GORM fills in the primary key
	}
	if len(oc.Columns) != len(m.primary) {
		return false
	}
	for _, c := range oc.Columns {
		if !slices.ContainsFunc(m.primary, func(f *schema.Field) bool {
			return f.DBName == c.Name || (c.Name == clause.PrimaryKey && len(m.primary) == 1)
		}) {
			return false
		}
	}
	return true
}
