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
	elems, problem := m.elements(stmt.ReflectValue)
	if problem != "" {
		return in.fail(db, c, problem, "create values of "+m.name)
	}
	if len(elems) == 0 {
		return nil // GORM reports the empty slice
	}
	var set int
	var err error
	if c.keys, set, err = m.keysOf(db, elems); err != nil {
		return err
	}
	if !elems[0].CanAddr() && len(m.schema.FieldsWithDefaultDBValue) > 0 {
		// GORM would panic, with the transaction open, when it sets the columns that the database made.
		return in.fail(db, c, "the value can't take the columns that the database makes", "pass a pointer")
	}
	if err := in.checkKeyColumns(db, c); err != nil {
		return err
	}
	if err := in.checkConflict(db, c, set); err != nil {
		return err
	}
	switch {
	case set == len(c.keys) || in.returnsKeys(db, m):
		return nil
	case returning(db):
		return in.fail(db, c, "its RETURNING clause leaves out the primary key, which the database makes", "return the key too, or set it before the save")
	default:
		return in.checkLastInsertID(db, c, set)
	}
}

// checkKeyColumns makes sure that the rows get the keys that are set, and that the database makes the others.
func (in *instance) checkKeyColumns(db *gorm.DB, c *capture) error {
	columns, restricted := db.Statement.SelectAndOmitColumns(true, false)
	for i, f := range c.model.primary {
		selected, known := columns[f.DBName]
		leftOut := known && !selected || !known && restricted
		for _, k := range c.keys {
			switch {
			case !k.zero[i] && leftOut:
				return in.fail(db, c, "Select or Omit leaves out the primary key "+f.DBName+", which is set", "select the key too, or leave it zero")
			case k.zero[i] && !f.HasDefaultValue:
				return in.fail(db, c, "the primary key "+f.DBName+" is zero and the database makes none", "set every part of the key before the save")
			}
		}
	}
	return nil
}

// returning says whether the driver's inserts have RETURNING.
func returning(db *gorm.DB) bool {
	return slices.Contains(db.Callback().Create().Clauses, "RETURNING")
}

// returnsKeys says whether the driver reads all keys made by the database by RETURNING.
func (in *instance) returnsKeys(db *gorm.DB, m *model) bool {
	if !returning(db) {
		return false
	}
	own, ok := db.Statement.Clauses["RETURNING"].Expression.(clause.Returning)
	if !ok || len(own.Columns) == 0 {
		return true // GORM's own, or all columns
	}
	for _, f := range m.primary {
		if !slices.ContainsFunc(own.Columns, func(c clause.Column) bool { return c.Name == f.DBName || c.Name == "*" }) {
			return false
		}
	}
	return true
}

// checkLastInsertID refuses what GORM can't tell from LAST_INSERT_ID.
func (in *instance) checkLastInsertID(db *gorm.DB, c *capture, set int) error {
	f := c.model.schema.PrioritizedPrimaryField
	auto := in.dialect.Name() == "mysql" && f != nil && f.AutoIncrement && isInt(f)
	for _, k := range c.keys {
		for i, part := range c.model.primary {
			auto = auto && (part == f || !k.zero[i])
		}
	}
	if !auto {
		return in.fail(db, c, "the database makes the primary key and does not return it", "set the key before the save, for example in BeforeCreate")
	}
	if len(c.keys) == 1 {
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

// created reads the inserted rows back: memory is not the row after Select, Omit,
// database defaults, rounding and an upsert.
func (in *instance) created(db *gorm.DB, c *capture) ([]change, error) {
	m := c.model
	elems, problem := m.elements(db.Statement.ReflectValue)
	if problem != "" || len(elems) < len(c.keys) {
		return nil, in.fail(db, c, "its value was changed by the insert", "create values of "+m.name)
	}
	// Keys that the database made are in the values now.
	keys, set, err := m.keysOf(db, elems[:len(c.keys)])
	if err != nil {
		return nil, err
	}
	for i, k := range c.keys {
		if k.set() {
			keys[i] = k
		}
	}
	if set < len(keys) {
		return nil, in.fail(db, c, "a primary key is still zero after the insert", "set every part of the key before the save")
	}
	if !c.upsert && db.RowsAffected != int64(len(keys)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were inserted for %d values", db.RowsAffected, len(keys)), clientKeys)
	}
	found, err := in.read(db, m, keys, readOptions{unscoped: true})
	if err != nil {
		return nil, err
	}
	changes, ok := match(keys, found, Created)
	if !ok || len(changes) != countKeys(keys) {
		return nil, in.fail(db, c, fmt.Sprintf("%d of %d rows could be read back by their keys", len(changes), countKeys(keys)), "see that the model's key is what the database holds")
	}
	if !c.upsert {
		return changes, nil
	}
	return slices.DeleteFunc(in.upserted(c, changes), func(ch change) bool { return c.unchanged(db, ch) }), nil
}

// upserted gives the rows whose key was set the kind of an upsert; those whose key the database made are new.
func (in *instance) upserted(c *capture, changes []change) []change {
	had := make(map[string]bool, len(c.keys))
	for _, k := range c.keys {
		if k.set() {
			had[k.identity] = true
		}
	}
	for i := range changes {
		if had[changes[i].identity] || len(changes) == 1 && len(had) == 1 {
			changes[i].kind = Upserted
		}
	}
	return changes
}

func countKeys(keys []rowKey) int {
	distinct := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		distinct[k.identity] = struct{}{}
	}
	return len(distinct)
}
