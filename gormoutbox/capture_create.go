package gormoutbox

import (
	"database/sql"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

const clientKeys = "set the keys before the save (UUIDv7 for example), or save one by one"

// checkCreate refuses inserts whose rows could not be told afterwards.
func (in *instance) checkCreate(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	elems, ok := elements(stmt.ReflectValue)
	if !ok {
		return in.fail(db, c, "it is made from a map or a mixed list", "create values of "+m.name)
	}
	if len(elems) == 0 {
		return nil // GORM reports the empty slice
	}
	keys, set := m.keysOf(db, elems)
	c.keys, c.auto = keys, set < len(keys)
	if err := in.checkConflict(db, c, set); err != nil {
		return err
	}
	if set > 0 {
		// A key that is set but not among the selected columns is not what the row gets.
		columns, restricted := stmt.SelectAndOmitColumns(true, false)
		for _, f := range m.primary {
			if v, ok := columns[f.DBName]; (ok && !v) || (!ok && restricted) {
				return in.fail(db, c, "Select or Omit leaves out the primary key "+f.DBName+", which is set", "select the key too, or leave it zero")
			}
		}
	}
	if !c.auto || in.returnsKeys(db) {
		return nil
	}
	return in.checkLastInsertID(db, c, len(elems), set)
}

// returnsKeys says whether the driver reads keys made by the database by RETURNING.
func (in *instance) returnsKeys(db *gorm.DB) bool {
	return slices.Contains(db.Callback().Create().Clauses, "RETURNING")
}

// checkLastInsertID refuses what GORM can't tell from LAST_INSERT_ID.
func (in *instance) checkLastInsertID(db *gorm.DB, c *capture, n, set int) error {
	f := c.model.schema.PrioritizedPrimaryField
	if f == nil || !f.AutoIncrement && f.AutoIncrementIncrement == 0 || !isInt(f) {
		return in.fail(db, c, "the database makes the primary key and does not return it", "set the key before the save, for example in BeforeCreate")
	}
	if n == 1 {
		return nil
	}
	if set > 0 {
		return in.fail(db, c, "some keys of the batch are set and others are made by the database, and GORM numbers them wrongly", clientKeys)
	}
	var step sql.NullInt64
	if err := db.Statement.ConnPool.QueryRowContext(db.Statement.Context, "SELECT @@auto_increment_increment").Scan(&step); err != nil {
		return fmt.Errorf("gormoutbox: reading auto_increment_increment: %w", err)
	}
	if step.Int64 != f.AutoIncrementIncrement {
		return in.fail(db, c, fmt.Sprintf("auto_increment_increment is %d and GORM numbers the batch by %d", step.Int64, f.AutoIncrementIncrement), clientKeys)
	}
	return nil
}

func isInt(f *schema.Field) bool { return f.DataType == schema.Int || f.DataType == schema.Uint }

// checkConflict admits the upserts of which the outcome can be told: those by
// primary key that update, if all keys are set (upserted) or none is (inserted).
func (in *instance) checkConflict(db *gorm.DB, c *capture, set int) error {
	cl, ok := db.Statement.Clauses["ON CONFLICT"]
	if !ok {
		return nil
	}
	oc, ok := cl.Expression.(clause.OnConflict)
	if !ok {
		return in.fail(db, c, "its ON CONFLICT clause is not GORM's", "use clause.OnConflict")
	}
	const cure = "save the row by itself (associations: Omit(clause.Associations) and save them apart), or use gormoutbox.Ignore(ctx) to write without an event"
	switch {
	case oc.DoNothing:
		return in.fail(db, c, "with DO NOTHING the database does not tell which rows it inserted", cure)
	case !in.targetsPrimaryKey(db, c.model, oc):
		return in.fail(db, c, "its conflict target is not the primary key, so the row that was written can't be told", cure)
	case len(oc.Where.Exprs) > 0 || len(oc.TargetWhere.Exprs) > 0:
		return in.fail(db, c, "its ON CONFLICT clause has a condition, so it can't be told whether the row was written", cure)
	case set == 0:
		return nil // nothing to conflict with: all rows are inserted
	case set < len(c.keys):
		return in.fail(db, c, "some keys of the upsert are set and others are not", cure)
	}
	for _, f := range c.model.primary {
		for _, a := range oc.DoUpdates {
			if a.Column.Name == f.DBName && !sameExcluded(a, f.DBName) {
				return in.fail(db, c, "it changes the primary key", cure)
			}
		}
	}
	c.upsert = true
	return nil
}

// sameExcluded says whether the assignment writes the key's own value, as UpdateAll does.
func sameExcluded(a clause.Assignment, name string) bool {
	col, ok := a.Value.(clause.Column)
	return ok && col.Table == "excluded" && col.Name == name
}

// targetsPrimaryKey says whether only the primary key can be the conflict. MySQL
// has no conflict target: any other unique index may be the one.
func (in *instance) targetsPrimaryKey(db *gorm.DB, m *model, oc clause.OnConflict) bool {
	if oc.OnConstraint != "" {
		return false
	}
	if in.dialect.Name() == "mysql" && hasOtherUnique(m.schema) {
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

// created reads the inserted rows back: memory is not the row after Select, Omit,
// database defaults, rounding and an upsert.
func (in *instance) created(db *gorm.DB, c *capture) ([]change, error) {
	m := c.model
	elems, _ := elements(db.Statement.ReflectValue)
	keys := c.keys
	if c.auto {
		var set int
		if keys, set = m.keysOf(db, elems); set < len(keys) {
			return nil, in.fail(db, c, "a primary key is still zero after the insert", "set every part of the key before the save")
		}
	}
	kind := Created
	if c.upsert {
		kind = Upserted
	} else if db.RowsAffected != int64(len(keys)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were inserted for %d values", db.RowsAffected, len(keys)), clientKeys)
	}
	found, err := in.read(db, m, keys, readOptions{unscoped: true})
	if err != nil {
		return nil, err
	}
	if len(found) != countKeys(keys) {
		return nil, in.fail(db, c, fmt.Sprintf("%d of %d rows could be read back by their keys", len(found), countKeys(keys)), "see that the model's key is what the database holds")
	}
	return inOrder(keys, found, kind), nil
}

func countKeys(keys []rowKey) int {
	distinct := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		distinct[k.identity] = struct{}{}
	}
	return len(distinct)
}
