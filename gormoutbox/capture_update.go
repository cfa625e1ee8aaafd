package gormoutbox

import (
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// checkUpdate takes the list of assigned columns and decides how the rows that the update matches are told.
func (in *instance) checkUpdate(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	elems, problem := m.elements(stmt.ReflectValue)
	if problem != "" {
		return in.fail(db, c, problem, "pass values of "+m.name+" as the model")
	}
	keys, set, err := m.keysOf(db, elems)
	if err != nil {
		return err
	}
	assigned, given, err := in.assignments(db, c)
	if err != nil || len(assigned) == 0 {
		return err // nothing to write, GORM makes no statement
	}
	c.assign(assigned, keys, in.traits.DuplicateKey)
	if missingWhere(db) {
		return nil // GORM refuses it itself: ErrMissingWhereClause
	}
	c.rows = in.updated
	if set == len(keys) {
		c.keys = keys
	}
	swap := in.returns(db, "update") && stmt.Result == nil
	// Without RETURNING a count of 0 may mean a row that has the values: a recorder needs to know.
	uncounted := len(c.recorders) > 0 && in.traits.CountsChanged
	if !c.moves && m.before == "" && !uncounted {
		if swap {
			return in.redirected(db, c, len(c.keys))
		}
		if !given && in.keyed(db, c) {
			return nil // the row can be read back by its key
		}
	}
	if err := in.hold(db, c, stmt.Clauses["WHERE"].Expression); err != nil {
		return err
	}
	if c.rekeys {
		if err := in.checkRekey(db, c, assigned, swap); err != nil {
			return err
		}
	}
	if swap && len(c.held) > 0 {
		return in.redirected(db, c, len(c.held))
	}
	return nil
}

// assign notes the columns that are assigned. Where texts fold, a text key may become another spelling of itself.
func (c *capture) assign(set clause.Set, keys []rowKey, folds bool) {
	m := c.model
	for _, a := range set {
		name := a.Column.Name
		if f := m.schema.LookUpField(name); f != nil {
			name = f.DBName
			c.rekeys = c.rekeys || f.PrimaryKey && (folds && f.GORMDataType == schema.String || !keepsKey(m, keys, a, name))
			c.moves = c.moves || c.rekeys || !f.PrimaryKey && slices.Contains(m.key, f)
		}
		if !m.excluded[name] && !slices.Contains(c.changed, name) {
			c.changed = append(c.changed, name)
		}
	}
	slices.Sort(c.changed)
}

// assignments computes the SET clause as gorm:update would, before it does. The
// statement keeps it, so that it is not computed twice. given says that the user has made one, in
// which case GORM would not add the key of the model to the conditions.
func (in *instance) assignments(db *gorm.DB, c *capture) (set clause.Set, given bool, err error) {
	stmt := db.Statement
	for _, uc := range stmt.Schema.UpdateClauses {
		stmt.AddClause(uc)
	}
	if cl, ok := stmt.Clauses["SET"]; ok {
		set, ok = cl.Expression.(clause.Set)
		if !ok {
			return nil, true, in.fail(db, c, "its SET clause is not GORM's", "use clause.Set, Update or Updates")
		}
		return set, true, nil
	}
	if f := stmt.Schema.PrioritizedPrimaryField; in.traits.Output && f != nil && f.AutoIncrement {
		stmt.Omits = append(stmt.Omits, f.DBName) // as SQL Server's driver does, when it is too late for us
	}
	set = callbacks.ConvertToAssignments(stmt)
	if len(set) > 0 {
		stmt.AddClause(set)
		c.later(func() { delete(stmt.Clauses, "SET") })
	}
	return set, false, nil
}

// missingWhere says whether GORM will refuse the statement for having no condition.
func missingWhere(db *gorm.DB) bool {
	if db.AllowGlobalUpdate {
		return false
	}
	where, ok := db.Statement.Clauses["WHERE"]
	if !ok {
		return true
	}
	if _, soft := db.Statement.Clauses[softDeleteEnabled]; soft {
		expr, _ := where.Expression.(clause.Where)
		return len(expr.Exprs) <= 1
	}
	return false
}

// keepsKey says whether an assignment to a key column writes the value that it has.
func keepsKey(m *model, keys []rowKey, a clause.Assignment, column string) bool {
	if len(keys) != 1 || !keys[0].set() {
		return false
	}
	for i, f := range m.primary {
		if f.DBName != column {
			continue
		}
		now, err1 := keyText(a.Value)
		was, err2 := keyText(keys[0].values[i])
		return err1 == nil && err2 == nil && now == was
	}
	return false
}

// updated tells the rows as they are now: memory is not the row after expressions,
// serializers, dirty fields, optimistic locks and rounding.
func (in *instance) updated(db *gorm.DB, c *capture) ([]change, error) {
	if c.scan == nil && c.held == nil {
		return in.updatedByKey(db, c)
	}
	rows, err := in.writtenRows(db, c)
	if err != nil {
		return nil, err
	}
	if c.held == nil {
		return changesOf(inOrder(c.keys, rows), Updated), nil
	}
	return in.compared(db, c, rows)
}

// writtenRows are the rows as they are after the write: those that it returned, or those that were held, read again.
func (in *instance) writtenRows(db *gorm.DB, c *capture) ([]rowValue, error) {
	if c.scan != nil {
		return c.returned(c.model)
	}
	keys, err := c.model.rowKeys(db, c.held)
	if err != nil {
		return nil, err
	}
	if c.rekeys {
		keys = c.keys // of the one row, where it went to
	}
	// They are locked already; a read without a lock could be of an older snapshot.
	return in.read(db, c.model, keys, readOptions{unscoped: true, again: true})
}

// compared pairs the rows with what they were before. One that has not changed is no event.
func (in *instance) compared(db *gorm.DB, c *capture, rows []rowValue) ([]change, error) {
	if len(rows) != len(c.held) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were locked before the write and %d were found after it", len(c.held), len(rows)), "see whether a trigger of the table deletes or moves rows")
	}
	after := byIdentity(rows)
	var out []change
	for i, was := range inOrder(c.keys, c.held) {
		now, ok := after[was.identity]
		if c.rekeys {
			now, ok = rows[i], true // there is one
		}
		if !ok {
			return nil, in.fail(db, c, "a row has another key after the write", "delete the row and create another")
		}
		if c.model.sameRow(db.Statement, was, now) {
			continue
		}
		ch := change{rowValue: now, kind: Updated, before: was.row, changed: c.model.changedColumns(db.Statement, was, now)}
		if c.moves {
			old, err := c.model.aggregateID(db.Statement.Context, was.row)
			if err != nil {
				return nil, err
			}
			ch.previousID = old
		}
		out = append(out, ch)
	}
	return out, nil
}

// checkRekey admits a change of the primary key where it can be told which row went where: one row, to a value that is known.
func (in *instance) checkRekey(db *gorm.DB, c *capture, set clause.Set, swap bool) error {
	if len(c.held) > 1 {
		return in.fail(db, c, "it changes the key of several rows", "change one row by its key, or delete the rows and create others")
	}
	if len(c.held) == 0 {
		return nil
	}
	if swap {
		return nil // the row returns with its new key
	}
	row := cloneRow(c.held[0].row)
	for _, a := range set {
		f := c.model.schema.LookUpField(a.Column.Name)
		if f == nil || !f.PrimaryKey {
			continue
		}
		if _, made := a.Value.(clause.Expression); made {
			return in.fail(db, c, "its new key is an expression and the database does not return it", "assign a value")
		}
		if err := f.Set(db.Statement.Context, row, a.Value); err != nil {
			return in.fail(db, c, "its new key is no value of "+f.Name, "assign a value of the field's type")
		}
	}
	k, err := c.model.primaryKey(db.Statement.Context, row)
	if err != nil {
		return err
	}
	if !k.set() {
		return in.fail(db, c, "its new key is zero", "assign another key")
	}
	c.keys = []rowKey{k}
	return nil
}
