package gormoutbox

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// checkKeys admits statements whose rows are told by keys in the value: one row
// with any further conditions, or several without.
func (in *instance) checkKeys(db *gorm.DB, c *capture, elems []reflect.Value, conditions bool) error {
	keys, set, err := c.model.keysOf(db, elems)
	if err != nil {
		return err
	}
	if cl, ok := db.Statement.Clauses["WHERE"]; ok {
		where, known := cl.Expression.(clause.Where)
		if !known {
			return in.fail(db, c, "its WHERE clause is not GORM's", c.byKey())
		}
		if hasOr(where.Exprs) {
			return in.fail(db, c, "its conditions have an OR, so other rows may be written", c.byKey())
		}
		conditions = conditions || len(where.Exprs) > 0
	}
	switch {
	case set == 0 && !conditions && !db.AllowGlobalUpdate && !anyPart(keys):
		return nil // GORM refuses it itself: ErrMissingWhereClause
	case set == 0 || set < len(keys):
		return in.fail(db, c, "the rows are told by conditions or by a part of their key", c.byKey())
	case conditions && len(keys) > 1:
		return in.fail(db, c, "a list of rows has further conditions, so it can't be told which of them are written", c.byKey())
	}
	c.keys = keys
	return nil
}

// anyPart says whether a key has a part that is set, by which GORM would select rows.
func anyPart(keys []rowKey) bool {
	for _, k := range keys {
		for _, zero := range k.zero {
			if !zero {
				return true
			}
		}
	}
	return false
}

// hasOr says whether the conditions, joined by AND with the key, could match other rows.
func hasOr(exprs []clause.Expression) bool {
	for _, e := range exprs {
		switch e := e.(type) {
		case clause.OrConditions:
			return true
		case clause.Expr:
			if looseOr(e.SQL) {
				return true
			}
		case clause.NamedExpr:
			if looseOr(e.SQL) {
				return true
			}
		}
	}
	return false
}

var orWord = regexp.MustCompile(`(?i)\bX?OR\b|\|\|`)

// looseOr finds an OR around which GORM puts no parentheses: it looks for " OR " and " AND " only.
func looseOr(sql string) bool {
	upper := strings.ToUpper(sql)
	return !strings.Contains(upper, clause.OrWithSpace) && !strings.Contains(upper, clause.AndWithSpace) && orWord.MatchString(sql)
}

// checkDelete reads and locks the rows before they are gone.
func (in *instance) checkDelete(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	if !stmt.ReflectValue.IsValid() {
		return in.fail(db, c, "it has no value", "pass the row to delete")
	}
	elems, problem := m.elements(stmt.ReflectValue)
	if problem != "" {
		return in.fail(db, c, problem, "pass values of "+m.name)
	}
	conditions := false
	// In Model(&row).Delete(&Order{}) GORM adds the key of the model.
	if stmt.ReflectValue.CanAddr() && stmt.Model != nil && stmt.Dest != stmt.Model {
		modelElems, problem := m.elements(reflect.Indirect(reflect.ValueOf(stmt.Model)))
		if problem != "" {
			return in.fail(db, c, problem, "pass values of "+m.name+" as the model")
		}
		keys, _, err := m.keysOf(db, elems)
		if err != nil {
			return err
		}
		if anyPart(keys) {
			conditions = true
		} else {
			elems = modelElems
		}
	}
	if err := in.checkKeys(db, c, elems, conditions); err != nil || len(c.keys) == 0 {
		return err
	}
	found, err := in.read(db, m, c.keys, readOptions{unscoped: stmt.Unscoped, lock: true})
	if err != nil {
		return err
	}
	last, ok := match(c.keys, found, Deleted)
	if !ok {
		return in.fail(db, c, "the database compares keys otherwise than Go does", c.byKey())
	}
	c.last = last
	return nil
}

// deleted are the rows as they were.
func (in *instance) deleted(db *gorm.DB, c *capture) ([]change, error) {
	if db.RowsAffected != int64(len(c.last)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were deleted and %d were read before", db.RowsAffected, len(c.last)), c.byKey())
	}
	return c.last, nil
}
