package gormoutbox

import (
	"fmt"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// checkKeys admits statements whose rows are told by keys in the value: one row
// with any further conditions, or several without.
func (in *instance) checkKeys(db *gorm.DB, c *capture, m *model, elems []reflect.Value) error {
	keys, set := m.keysOf(db, elems)
	where, conditions := db.Statement.Clauses["WHERE"].Expression.(clause.Where)
	conditions = conditions && len(where.Exprs) > 0
	if set == 0 && !conditions && !db.AllowGlobalUpdate {
		return nil // GORM refuses it itself: ErrMissingWhereClause
	}
	if set == 0 || set < len(keys) {
		return in.fail(db, c, "the rows are told by conditions or by a part of their key", byKey)
	}
	if conditions && len(keys) > 1 {
		return in.fail(db, c, "a list of rows has further conditions, so it can't be told which of them are written", byKey)
	}
	if conditions && hasOr(where.Exprs) {
		return in.fail(db, c, "its conditions have an OR, so other rows may be written", byKey)
	}
	c.keys = keys
	return nil
}

func hasOr(exprs []clause.Expression) bool {
	for _, e := range exprs {
		if _, ok := e.(clause.OrConditions); ok {
			return true
		}
	}
	return false
}

// checkDelete reads and locks the rows before they are gone.
func (in *instance) checkDelete(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	if !stmt.ReflectValue.IsValid() {
		return in.fail(db, c, "it has no value", "pass the row to delete")
	}
	elems, ok := elements(stmt.ReflectValue)
	if !ok {
		return in.fail(db, c, "its value is no struct or list of structs", "pass values of "+m.name)
	}
	if err := in.checkKeys(db, c, m, elems); err != nil || len(c.keys) == 0 {
		return err
	}
	found, err := in.read(db, m, c.keys, readOptions{unscoped: stmt.Unscoped, lock: true})
	if err != nil {
		return err
	}
	c.last = inOrder(c.keys, found, Deleted)
	return nil
}

// deleted are the rows as they were.
func (in *instance) deleted(db *gorm.DB, c *capture) ([]change, error) {
	if db.RowsAffected != int64(len(c.last)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were deleted and %d were read before", db.RowsAffected, len(c.last)), byKey)
	}
	return c.last, nil
}
