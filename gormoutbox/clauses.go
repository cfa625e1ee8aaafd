package gormoutbox

import (
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// tableInClause is another table than the statement's that a clause of the user names, or "". GORM then
// writes there and knows nothing of it itself.
func tableInClause(stmt *gorm.Statement, op string) string {
	if len(stmt.Clauses) == 0 {
		return ""
	}
	var tables []clause.Table
	if op == "create" {
		if insert, ok := stmt.Clauses["INSERT"].Expression.(clause.Insert); ok {
			tables = append(tables, insert.Table)
		}
	} else {
		if update, ok := stmt.Clauses["UPDATE"].Expression.(clause.Update); ok { // a soft delete is one, too
			tables = append(tables, update.Table)
		}
		if from, ok := stmt.Clauses["FROM"].Expression.(clause.From); ok && op == "delete" {
			tables = append(tables, from.Tables...)
		}
	}
	for _, t := range tables {
		if t.Name != "" && t.Name != clause.CurrentTable && t.Name != stmt.Table {
			return t.Name
		}
	}
	return ""
}

// checkClauses refuses statements whose clauses make them write something else than their model and their values say.
func (in *instance) checkClauses(db *gorm.DB, c *capture) error {
	if len(db.Statement.Clauses) == 0 {
		return nil
	}
	if table := tableInClause(db.Statement, c.op); table != "" {
		return in.fail(db, c, "one of its clauses names another table, "+table, "name the table by Table(…)")
	}
	if c.op == "create" {
		insert, _ := db.Statement.Clauses["INSERT"].Expression.(clause.Insert)
		if word := modifier(insert.Modifier, "IGNORE", "REPLACE"); word != "" {
			return in.fail(db, c, "INSERT with "+word+" leaves rows out or deletes others, and the database does not tell which", "use clause.OnConflict")
		}
		return nil
	}
	update, _ := db.Statement.Clauses["UPDATE"].Expression.(clause.Update)
	if word := modifier(update.Modifier, "REPLACE"); word != "" {
		return in.fail(db, c, "UPDATE with "+word+" deletes other rows, and the database does not tell which", "delete those rows before")
	}
	remove, _ := db.Statement.Clauses["DELETE"].Expression.(clause.Delete)
	if word := modifier(remove.Modifier, "IGNORE"); c.op == "delete" && word != "" {
		return in.fail(db, c, "DELETE with "+word+" leaves rows out, and the database does not tell which", "delete without it")
	}
	return nil
}

// modifier returns the first of the words that is in the text, which is upper or lower case and has other words too.
func modifier(text string, words ...string) string {
	if text == "" {
		return ""
	}
	for _, word := range strings.Fields(strings.ToUpper(text)) {
		if slices.Contains(words, word) {
			return word
		}
	}
	return ""
}
