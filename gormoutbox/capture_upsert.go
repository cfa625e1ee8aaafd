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

// checkConflict admits the upserts of which the outcome can be told: those by primary key that
// update (rows with a set key are upserted, others inserted), and DO NOTHING where the
// number of rows or the rows that are there already tell.
func (in *instance) checkConflict(db *gorm.DB, c *capture, set int) error {
	cl, ok := db.Statement.Clauses["ON CONFLICT"]
	if !ok {
		return nil
	}
	oc, ok := cl.Expression.(clause.OnConflict)
	if !ok {
		return in.fail(db, c, "its ON CONFLICT clause is not GORM's", "use clause.OnConflict")
	}
	if oc.DoNothing || oc.UpdateAll && !in.updatesSome(db, c.model) {
		return in.checkDoNothing(db, c, set)
	}
	if len(oc.Where.Exprs) > 0 || len(oc.TargetWhere.Exprs) > 0 {
		return in.fail(db, c, "its ON CONFLICT clause has a condition, so it can't be told whether the row was written", upsertCure)
	}
	if !targetsPrimaryKey(c.model, oc) {
		return in.fail(db, c, "its conflict target is not the primary key, so the row that was written can't be told", upsertCure)
	}
	if set > 0 && set < len(c.keys) && !in.returnsKeys(db, c.model) {
		return in.fail(db, c, "some keys of the upsert are set and others are not", upsertCure)
	}
	for _, f := range c.model.primary {
		for _, a := range oc.DoUpdates {
			if a.Column.Name == f.DBName && !sameExcluded(a, f.DBName) {
				return in.fail(db, c, "it changes the primary key", upsertCure)
			}
		}
	}
	// MySQL has no conflict target: any other unique index may be the one, unless the row is there by its key.
	if in.dialect.Name() == "mysql" && c.model.otherUnique {
		there, err := in.allThere(db, c)
		if err != nil {
			return err
		}
		if !there {
			return in.fail(db, c, "another unique index may be the conflict, so the row that was written can't be told", upsertCure)
		}
	}
	if set == 0 {
		return nil // nothing to conflict with: all rows are inserted
	}
	c.upsert = true
	if oc.UpdateAll {
		return nil
	}
	// Associations are saved like this with each save of their owner, mostly without a change.
	for _, a := range oc.DoUpdates {
		c.columns = append(c.columns, a.Column.Name)
	}
	found, err := in.read(db, c.model, c.keys, readOptions{unscoped: true, lock: true})
	c.before = found
	return err
}

// checkDoNothing admits an insert of one row where the database counts only
// inserted ones, of rows that have no key to conflict by, and of rows that are all there.
func (in *instance) checkDoNothing(db *gorm.DB, c *capture, set int) error {
	if in.dialect.Name() != "mysql" && (len(c.keys) == 1 || set == 0 && !c.model.otherUnique) {
		return nil
	}
	there, err := in.allThere(db, c)
	if err != nil {
		return err
	}
	if !there {
		return in.fail(db, c, "with DO NOTHING, as GORM saves belongs-to and many2many associations, the database does not tell which rows it inserted", upsertCure)
	}
	c.silent = true
	return nil
}

// allThere says whether the table has all the rows by their keys, and locks them.
func (in *instance) allThere(db *gorm.DB, c *capture) (bool, error) {
	for _, k := range c.keys {
		if !k.set() {
			return false, nil
		}
	}
	found, err := in.read(db, c.model, c.keys, readOptions{unscoped: true, lock: true})
	return len(found) == countKeys(c.keys), err
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

func hasOtherUnique(s *schema.Schema) bool {
	for _, f := range s.Fields {
		if f.Unique || f.UniqueIndex != "" {
			return true
		}
	}
	for _, index := range s.ParseIndexes() {
		if index.Class == "UNIQUE" {
			return true
		}
	}
	return false
}

// unchanged says whether an upsert of some columns found the row with their values.
func (c *capture) unchanged(db *gorm.DB, ch change) bool {
	was, ok := c.before[ch.identity]
	if !ok || ch.kind != Upserted {
		return false
	}
	for _, name := range c.columns {
		f := c.model.schema.LookUpField(name)
		if f == nil {
			return false
		}
		// The Go values, as ValueOf wraps those of serializers.
		old := f.ReflectValueOf(db.Statement.Context, was.row).Interface()
		now := f.ReflectValueOf(db.Statement.Context, ch.row).Interface()
		if !reflect.DeepEqual(old, now) {
			return false
		}
	}
	return true
}
