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
	if err := in.checkRouting(db, c, w, held); err != nil {
		return err
	}
	c.held = held
	if held == nil {
		c.held = []rowValue{}
	}
	keys, err := m.rowKeys(db, held)
	if err != nil {
		return err
	}
	most := in.dialect.MaxParams() - in.usedParams(db, w)
	switch {
	case len(keys)*len(m.primary) <= most:
	case in.traits.LocksRanges:
		return nil // no need to narrow it
	default:
		return in.fail(db, c, fmt.Sprintf("it matches %d rows, more than one statement can name by their keys", len(keys)),
			fmt.Sprintf("write at most %d rows at once", most/len(m.primary)))
	}
	// Two expressions: with one, GORM would take the condition of a soft delete for the only one.
	c.setClause("WHERE", clause.Where{Exprs: []clause.Expression{all(w.Exprs), in.keysIn(m, keys)}})
	c.narrowed = true
	return nil
}

// checkRouting makes sure that a pool which sends statements to other tables, as that of the sharding plugin, sent the
// locking read to the table of the write: it may not understand the lock.
func (in *instance) checkRouting(db *gorm.DB, c *capture, w clause.Where, held []rowValue) error {
	if !pretends(db.Statement.ConnPool) || in.dialect.ForUpdate() == "" {
		return nil
	}
	seen, err := in.find(db, c.model, all(w.Exprs), readOptions{unscoped: true, bounded: true})
	if err != nil {
		return err
	}
	locked := byIdentity(held)
	for _, rv := range seen {
		if _, ok := locked[rv.identity]; !ok {
			return in.fail(db, c, fmt.Sprintf("the connection pool %T sends a locking read to other rows than the write", db.Statement.ConnPool), c.byKey())
		}
	}
	return nil
}

// usedParams is how many placeholders the user's statement takes, with some to spare for what its clauses add.
func (in *instance) usedParams(db *gorm.DB, w clause.Where) int {
	const spare = 10
	tx := db.Session(&gorm.Session{NewDB: true, Context: db.Statement.Context, DryRun: true}).Table(db.Statement.Table)
	tx.Statement.Schema = db.Statement.Schema
	all(w.Exprs).Build(tx.Statement)
	if set, ok := db.Statement.Clauses["SET"].Expression.(clause.Set); ok {
		set.Build(tx.Statement)
	}
	return 2*len(tx.Statement.Vars) + spare // a delete adds the conditions on the key once more
}

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

// keyed says whether an update writes at most the one row of a key, with any further conditions.
func (in *instance) keyed(db *gorm.DB, c *capture) bool {
	where, ok := db.Statement.Clauses["WHERE"].Expression.(clause.Where)
	return ok && len(c.keys) == 1 && !hasOr(where.Exprs)
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

// updatedByKey reads the row of a keyed update back.
func (in *instance) updatedByKey(db *gorm.DB, c *capture) ([]change, error) {
	if db.RowsAffected != 1 {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were written for one key", db.RowsAffected), c.byKey())
	}
	// With a lock, which it has already: a row that had the values is not ours, and a snapshot may be older. It may
	// have been deleted softly by the update itself.
	found, err := in.read(db, c.model, c.keys, readOptions{unscoped: true, again: true})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, in.fail(db, c, "the row that was written could not be read back by its key", c.byKey())
	}
	return changesOf(found, Updated), nil
}
