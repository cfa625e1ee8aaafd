package gormoutbox

import (
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// checkDelete decides how the rows that are deleted are told.
func (in *instance) checkDelete(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	if !stmt.ReflectValue.IsValid() {
		return in.fail(db, c, "it has no value", "pass the row to delete")
	}
	elems, problem := m.elements(stmt.ReflectValue)
	if problem != "" {
		return in.fail(db, c, problem, "pass values of "+m.name)
	}
	keys, set, err := m.keysOf(db, elems)
	if err != nil {
		return err
	}
	if set == len(keys) {
		c.keys = keys
	}
	c.rows = in.deleted
	if in.returns(db, "delete") && stmt.Result == nil {
		return in.redirected(db, c, len(c.keys))
	}
	exprs, err := in.deleteConditions(db, c)
	if err != nil {
		return err
	}
	if len(exprs) == 0 && !db.AllowGlobalUpdate {
		c.rows = nil
		return nil // GORM refuses it itself: ErrMissingWhereClause
	}
	if err := in.hold(db, c, clause.Where{Exprs: exprs}); err != nil {
		return err
	}
	if c.narrowed && softDeletes(stmt) && len(stmt.Schema.QueryClauses) > 0 {
		// The conditions have it already. Behind ours it would bind otherwise than behind the user's,
		// which GORM does not put in parentheses if it overlooks their OR.
		c.setClause(softDeleteEnabled, nil)
	}
	return nil
}

// softDeleteEnabled is the clause by which gorm.DeletedAt and plugins remember that they have added their condition.
const softDeleteEnabled = "soft_delete_enabled"

// deleteConditions are those that gorm:delete will use: the user's and the keys of the value and the model.
func (in *instance) deleteConditions(db *gorm.DB, c *capture) (exprs []clause.Expression, err error) {
	stmt := db.Statement
	if cl, ok := stmt.Clauses["WHERE"]; ok {
		where, ok := cl.Expression.(clause.Where)
		if !ok {
			return nil, in.fail(db, c, "its WHERE clause is not GORM's", c.byKey())
		}
		exprs = append(exprs, where.Exprs...)
	}
	given := len(exprs)
	byKey := func(value reflect.Value) {
		_, values := schema.GetIdentityFieldValuesMap(stmt.Context, value, c.model.primary)
		if column, args := schema.ToQueryValues(stmt.Table, stmt.Schema.PrimaryFieldDBNames, values); len(args) > 0 {
			exprs = append(exprs, clause.IN{Column: column, Values: args})
		}
	}
	byKey(stmt.ReflectValue)
	if stmt.ReflectValue.CanAddr() && stmt.Dest != stmt.Model && stmt.Model != nil {
		byKey(reflect.ValueOf(stmt.Model))
	}
	if len(exprs) > given && hasOr(exprs[:given]) {
		return nil, in.fail(db, c, "its conditions have an OR that binds less than the key of the value", "put them in parentheses by one Where, or leave the key out")
	}
	if stmt.Unscoped || len(exprs) == 0 {
		return exprs, nil
	}
	// What makes soft-deleted rows invisible, as gorm.DeletedAt and plugins do it for queries. Table gives the session a statement of its own.
	tx := db.Session(&gorm.Session{NewDB: true, Context: stmt.Context}).Table(stmt.Table)
	tx.Statement.AddClause(clause.Where{Exprs: exprs})
	for _, qc := range stmt.Schema.QueryClauses {
		tx.Statement.AddClause(qc)
	}
	where, _ := tx.Statement.Clauses["WHERE"].Expression.(clause.Where)
	return where.Exprs, nil
}

// deleted are the last rows, or what a soft delete has made of them.
func (in *instance) deleted(db *gorm.DB, c *capture) ([]change, error) {
	soft := strings.HasPrefix(db.Statement.SQL.String(), "UPDATE")
	rows := c.held
	if c.scan != nil || soft {
		var err error
		if rows, err = in.writtenRows(db, c); err != nil {
			return nil, err
		}
	}
	// A RETURNING clause of the user may be scanned into one value, and then one row is counted.
	// MySQL does not count a row that is softly deleted again.
	_, own := db.Statement.Clauses["RETURNING"]
	fewer := soft && in.traits.CountsChanged && db.RowsAffected < int64(len(rows))
	if !own && !fewer && db.RowsAffected != int64(len(rows)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were deleted and %d are known", db.RowsAffected, len(rows)), c.byKey())
	}
	changes := changesOf(inOrder(c.keys, rows), Deleted)
	for i := range changes {
		changes[i].soft = soft
	}
	return changes, nil
}

// softDeletes says whether a delete of the statement may be an UPDATE.
func softDeletes(stmt *gorm.Statement) bool {
	return stmt.Schema != nil && len(stmt.Schema.DeleteClauses) > 0 && !stmt.Unscoped
}
