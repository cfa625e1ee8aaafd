package gormoutbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// byKey is the cure for statements that don't name their rows by key.
func (c *capture) byKey() string {
	how := "db.Model(&row).Updates(…)"
	if c.op == "delete" {
		how = "db.Delete(&row)"
	}
	return "set the primary key in the value, as in " + how + " with row.ID set, one statement a row, or use gormoutbox.Ignore(ctx) to write without an event"
}

// hold reads and locks the rows that the statement will match, and narrows the
// statement to them: a row that begins to match in between would be written without an event.
func (in *instance) hold(db *gorm.DB, c *capture, where clause.Expression) error {
	stmt, m := db.Statement, c.model
	if _, joined := stmt.Clauses["FROM"]; joined {
		return in.fail(db, c, "it joins another table", c.byKey())
	}
	w, ok := where.(clause.Where)
	if !ok && where != nil {
		return in.fail(db, c, "its WHERE clause is not GORM's", c.byKey())
	}
	held, err := in.find(db, m, all(w.Exprs), readOptions{unscoped: true, lock: true, bounded: true})
	if err != nil {
		return err
	}
	c.held = held
	if held == nil {
		c.held = []rowValue{}
	}
	keys := make([]rowKey, len(held))
	for i, rv := range held {
		if keys[i], err = m.primaryKey(stmt.Context, rv.row); err != nil {
			return err
		}
	}
	if most := in.dialect.MaxParams() - reserveParams; len(keys)*len(m.primary) > most {
		return in.fail(db, c, fmt.Sprintf("it matches %d rows, more than one statement can name by their keys", len(keys)),
			fmt.Sprintf("write at most %d rows at once", most/len(m.primary)))
	}
	// Two expressions: with one, GORM would take the condition of a soft delete for the only one.
	c.setClause("WHERE", clause.Where{Exprs: []clause.Expression{all(w.Exprs), m.keysIn(keys)}})
	return nil
}

// reserveParams are placeholders left for the values and conditions of the user's statement.
const reserveParams = 2000

// all joins conditions by AND, in parentheses.
type all []clause.Expression

// Build implements clause.Expression.
func (a all) Build(b clause.Builder) {
	if len(a) == 0 {
		_, _ = b.WriteString("1 = 1") // to a strings.Builder, which can't fail
		return
	}
	_ = b.WriteByte('(')
	clause.Where{Exprs: slices.Clone(a)}.Build(b) // Build may reorder them
	_ = b.WriteByte(')')
}

// keyed says whether the rows that an update writes are those of the keys: one row
// with any further conditions, or several without.
func (in *instance) keyed(db *gorm.DB, c *capture) bool {
	if len(c.keys) == 0 {
		return false
	}
	where, ok := db.Statement.Clauses["WHERE"].Expression.(clause.Where)
	if !ok || hasOr(where.Exprs) {
		return false
	}
	if len(c.keys) == 1 {
		return true
	}
	// Several rows are named by one IN, and those that are not soft-deleted by another expression.
	own := 1
	if _, soft := db.Statement.Clauses["soft_delete_enabled"]; soft {
		own++
	}
	return len(where.Exprs) == own
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

// updatedByKey reads the rows of a keyed update back.
func (in *instance) updatedByKey(db *gorm.DB, c *capture) ([]change, error) {
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
	if got := int64(len(found)); got < db.RowsAffected || (got > db.RowsAffected && !in.traits.CountsChanged) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were written and %d could be read back by their keys", db.RowsAffected, got), c.byKey())
	}
	return changesOf(found, Updated), nil
}
