package gormoutbox

import (
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
)

// byKey is the cure for statements that don't name their rows by key. An id given as an argument is a condition, too.
func (c *capture) byKey() string {
	how := "db.Model(&row).Updates(…)"
	if c.op == "delete" {
		how = "db.Delete(&row)"
	}
	return "set the primary key in the value, as in " + how + " with row.ID set, one statement a row, or use gormoutbox.Ignore(ctx) to write without an event"
}

// checkUpdate refuses updates whose rows are not told by their keys, and takes
// the list of assigned columns.
func (in *instance) checkUpdate(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	elems, problem := m.elements(stmt.ReflectValue)
	if problem != "" {
		return in.fail(db, c, problem, "pass values of "+m.name+" as the model")
	}
	if err := in.checkKeys(db, c, elems, false); err != nil {
		return err
	}
	set, ok := assignments(stmt)
	if !ok {
		return in.fail(db, c, "its SET clause is given, to which GORM does not add the key", "use Update or Updates")
	}
	if len(set) == 0 {
		return nil // nothing to write, GORM makes no statement
	}
	c.set = true
	for _, a := range set {
		f := m.schema.LookUpField(a.Column.Name)
		if f != nil && f.PrimaryKey && !keepsKey(c, a, f.DBName) {
			return in.fail(db, c, "it changes the primary key "+f.DBName, "delete the row and create another")
		}
		name := a.Column.Name
		if f != nil {
			name = f.DBName
		}
		if !m.excluded[name] && !slices.Contains(c.changed, name) {
			c.changed = append(c.changed, name)
		}
	}
	slices.Sort(c.changed)
	return nil
}

// assignments computes the SET clause as gorm:update would, before it does. The
// statement keeps it, so that it is not computed twice. With a clause that is there already
// GORM would not compute one, and ok is false.
func assignments(stmt *gorm.Statement) (set clause.Set, ok bool) {
	for _, uc := range stmt.Schema.UpdateClauses {
		stmt.AddClause(uc)
	}
	if _, given := stmt.Clauses["SET"]; given || stmt.SQL.Len() > 0 {
		return nil, false
	}
	set = callbacks.ConvertToAssignments(stmt)
	if len(set) > 0 {
		stmt.AddClause(set)
	}
	return set, true
}

// keepsKey says whether an assignment to a key column writes the value that it has.
func keepsKey(c *capture, a clause.Assignment, column string) bool {
	if len(c.keys) != 1 {
		return false
	}
	for i, f := range c.model.primary {
		if f.DBName != column {
			continue
		}
		now, err1 := keyText(a.Value)
		was, err2 := keyText(c.keys[0].values[i])
		return err1 == nil && err2 == nil && now == was
	}
	return false
}

// updated reads the rows back: memory is not the row after expressions,
// serializers, dirty fields, optimistic locks and rounding.
func (in *instance) updated(db *gorm.DB, c *capture) ([]change, error) {
	n := int64(countKeys(c.keys))
	if db.RowsAffected > n {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were written for %d keys", db.RowsAffected, n), c.byKey())
	}
	// If every key was written, soft-deleted rows are among them; else a soft-deleted row was not matched.
	found, err := in.read(db, c.model, c.keys, readOptions{unscoped: db.RowsAffected == n || db.Statement.Unscoped})
	if err != nil {
		return nil, err
	}
	// MySQL does not count rows that already had the values.
	if got := int64(len(found)); got < db.RowsAffected || (got > db.RowsAffected && in.dialect.Name() != "mysql") {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were written and %d could be read back by their keys", db.RowsAffected, got), c.byKey())
	}
	changes, ok := match(c.keys, found, Updated)
	if !ok {
		return nil, in.fail(db, c, "the database compares keys otherwise than Go does", c.byKey())
	}
	return changes, nil
}
