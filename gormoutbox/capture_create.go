package gormoutbox

import (
	"database/sql"
	"fmt"
	"reflect"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

const clientKeys = "set the keys before the save (UUIDv7 for example), or save one by one"

// checkCreate refuses inserts whose rows could not be told afterwards, and
// decides how they are told.
func (in *instance) checkCreate(db *gorm.DB, c *capture) error {
	stmt, m := db.Statement, c.model
	elems, isMap, problem := in.createElements(stmt, m)
	if problem == nilElement {
		return nil // GORM reports it
	}
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
	if !isMap && !elems[0].CanAddr() && needsPointer(stmt, m, elems[0], in.filled(db, m)) {
		// GORM would panic, with the transaction open, when it sets the fields.
		return in.fail(db, c, "the value can't take what GORM or the database fills in", "pass a pointer")
	}
	if maps, ok := stmt.Dest.([]map[string]any); ok && len(maps) > 0 && len(in.filled(db, m)) > 0 {
		return in.fail(db, c, "GORM can't put the columns that the database makes into a list of maps", "pass a pointer to the list")
	}
	swap := in.returns(db, "create") && (stmt.Result == nil || len(backfilled(db, m)) > 0)
	if err := in.checkKeyColumns(db, c, swap); err != nil {
		return err
	}
	c.rows = in.created
	if _, conflict := stmt.Clauses["ON CONFLICT"]; conflict {
		if done, err := in.checkConflict(db, c, elems, set, swap); done || err != nil {
			return err
		}
	}
	switch {
	case swap:
		return in.redirected(db, c, len(c.keys))
	case in.traits.Output:
		return in.checkOutput(db, c, elems, set)
	case in.traits.NoLastInsertID && !returning(db, "create") && m.schema.PrioritizedPrimaryField != nil && m.schema.PrioritizedPrimaryField.HasDefaultValue:
		return in.fail(db, c, "GORM asks for a key that the driver does not tell, and would fail after the write", "open the database with RETURNING")
	case set == len(c.keys) || in.returnsKeys(db, m):
		return nil
	case returning(db, "create"):
		return in.fail(db, c, "its RETURNING clause leaves out the primary key, which the database makes", "return the key too, or set it before the save")
	default:
		return in.checkLastInsertID(db, c, set)
	}
}

// needsPointer says whether GORM will set fields of the value: those with a default and times of its creation.
func needsPointer(stmt *gorm.Statement, m *model, elem reflect.Value, backfilled []*schema.Field) bool {
	if len(backfilled) > 0 {
		return true
	}
	if f := m.schema.PrioritizedPrimaryField; f != nil && f.HasDefaultValue {
		if _, zero := f.ValueOf(stmt.Context, elem); zero {
			return true
		}
	}
	selected, restricted := stmt.SelectAndOmitColumns(true, false)
	return slices.ContainsFunc(m.schema.Fields, func(f *schema.Field) bool {
		timed := f.AutoCreateTime > 0 || f.AutoUpdateTime > 0
		if f.DBName == "" || !timed && f.DefaultValueInterface == nil {
			return false
		}
		on, known := selected[f.DBName]
		if known && !on || !known && restricted && !timed {
			return false
		}
		_, zero := f.ValueOf(stmt.Context, elem)
		return zero
	})
}

// checkKeyColumns makes sure that the rows get the keys that are set, where that is not told by the
// rows themselves, and that the database makes the others.
func (in *instance) checkKeyColumns(db *gorm.DB, c *capture, told bool) error {
	selected, restricted := db.Statement.SelectAndOmitColumns(true, false)
	for i, f := range c.model.primary {
		on, known := selected[f.DBName]
		leftOut := known && !on || !known && restricted
		for _, k := range c.keys {
			switch {
			case !k.zero[i] && leftOut && (!told || !f.HasDefaultValue):
				return in.fail(db, c, "Select or Omit leaves out the primary key "+f.DBName+", which is set", "select the key too, or leave it zero")
			case k.zero[i] && !f.HasDefaultValue:
				return in.fail(db, c, "the primary key "+f.DBName+" is zero and the database makes none", "set every part of the key before the save")
			}
		}
	}
	return nil
}

// returning says whether the driver writes RETURNING clauses for the operation.
func returning(db *gorm.DB, op string) bool {
	cb := db.Callback()
	var clauses []string
	switch op {
	case "create":
		clauses = cb.Create().Clauses
	case "update":
		clauses = cb.Update().Clauses
	default:
		clauses = cb.Delete().Clauses
	}
	return slices.Contains(clauses, "RETURNING")
}

// returns says whether we may let the statement return the rows that it writes.
func (in *instance) returns(db *gorm.DB, op string) bool {
	if !returning(db, op) {
		return false
	}
	if cl, given := db.Statement.Clauses["RETURNING"]; given {
		if _, ours := cl.Expression.(*redirect); !ours { // of another instance
			return false
		}
	}
	switch op {
	case "create":
		return in.traits.ReturnInsert
	case "update":
		return in.traits.ReturnUpdate
	default:
		return in.traits.ReturnDelete && (in.traits.ReturnSoftDelete || !softDeletes(db.Statement))
	}
}

// returnsKeys says whether GORM itself reads all keys made by the database by RETURNING.
func (in *instance) returnsKeys(db *gorm.DB, m *model) bool {
	if !returning(db, "create") {
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
	f := c.autoKey()
	if f == nil || !in.traits.LastInsertID {
		return in.fail(db, c, "the database makes the primary key and does not return it", "set the key before the save, for example in BeforeCreate")
	}
	if len(c.keys) == 1 {
		return nil
	}
	if set > 0 {
		return in.fail(db, c, "some keys of the batch are set and others are made by the database, and GORM numbers them wrongly", clientKeys)
	}
	return in.checkStep(db, c, f)
}

// checkStep makes sure that GORM numbers a batch as the server does.
func (in *instance) checkStep(db *gorm.DB, c *capture, f *schema.Field) error {
	step := f.AutoIncrementIncrement
	if _, ok := destMaps(db.Statement.Dest); ok {
		step = schema.DefaultAutoIncrementIncrement
	}
	var server sql.NullInt64
	if err := db.Statement.ConnPool.QueryRowContext(db.Statement.Context, "SELECT @@auto_increment_increment").Scan(&server); err != nil {
		return fmt.Errorf("gormoutbox: reading auto_increment_increment: %w", err)
	}
	if server.Int64 != step {
		return in.fail(db, c, fmt.Sprintf("auto_increment_increment is %d and GORM numbers the batch by %d", server.Int64, step), clientKeys)
	}
	return nil
}

// autoKey is the part of the primary key that the database counts up, if the other parts are set.
func (c *capture) autoKey() *schema.Field {
	f := c.model.schema.PrioritizedPrimaryField
	if f == nil || !f.AutoIncrement || !isInt(f) {
		return nil
	}
	for _, k := range c.keys {
		for i, part := range c.model.primary {
			if part != f && k.zero[i] {
				return nil
			}
		}
	}
	return f
}

func isInt(f *schema.Field) bool {
	return f.GORMDataType == schema.Int || f.GORMDataType == schema.Uint
}

// created tells the inserted rows: memory is not the row after Select, Omit,
// database defaults, rounding and an upsert.
func (in *instance) created(db *gorm.DB, c *capture) ([]change, error) {
	if c.scan != nil {
		return in.createdReturned(db, c)
	}
	m := c.model
	elems, _, problem := in.createElements(db.Statement, m)
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
	if !c.conflict && db.RowsAffected != int64(len(keys)) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were inserted for %d values", db.RowsAffected, len(keys)), clientKeys)
	}
	found, err := in.read(db, m, keys, readOptions{unscoped: true})
	if err != nil {
		return nil, err
	}
	if len(found) != len(keys) {
		return nil, in.fail(db, c, fmt.Sprintf("%d of %d rows could be read back by their keys", len(found), len(keys)), "see that the model's key is what the database holds")
	}
	return changesOf(found, Created), nil
}

// createdReturned are the rows that the INSERT returned, which are those that it wrote.
func (in *instance) createdReturned(db *gorm.DB, c *capture) ([]change, error) {
	rows, err := c.returned(c.model)
	if err != nil {
		return nil, err
	}
	if !c.conflict && len(rows) != len(c.keys) {
		return nil, in.fail(db, c, fmt.Sprintf("%d rows were inserted for %d values", len(rows), len(c.keys)), clientKeys)
	}
	changes := make([]change, len(rows))
	for i, rv := range rows {
		if k, err := c.model.primaryKey(db.Statement.Context, rv.row); err != nil || !k.set() {
			return nil, in.fail(db, c, "a primary key is still zero after the insert", "set every part of the key before the save")
		}
		changes[i] = change{rowValue: rv, kind: Created}
	}
	if !c.shared {
		if err := c.backfill(db); err != nil {
			return nil, err
		}
	}
	if !c.conflict {
		return changes, nil
	}
	return in.upserted(c, changes)
}

func countKeys(keys []rowKey) int {
	distinct := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		distinct[k.identity] = struct{}{}
	}
	return len(distinct)
}

// createElements lists the values to be inserted as structs of the model. Those of maps have
// only what the map says.
func (in *instance) createElements(stmt *gorm.Statement, m *model) (elems []reflect.Value, isMap bool, problem string) {
	maps, isMap := destMaps(stmt.Dest)
	if !isMap {
		elems, problem = m.elements(stmt.ReflectValue)
		return elems, false, problem
	}
	for _, values := range maps {
		elem := reflect.New(m.schema.ModelType).Elem()
		for name, value := range values {
			f := m.schema.LookUpField(name)
			if f == nil || !slices.Contains(m.primary, f) {
				continue
			}
			if _, made := value.(clause.Expression); made {
				return nil, true, "its column " + f.DBName + " is an expression, so the row can't be told"
			}
			if err := f.Set(stmt.Context, elem, value); err != nil {
				return nil, true, "its column " + f.DBName + " has a value that the field can't have"
			}
		}
		elems = append(elems, elem)
	}
	return elems, true, ""
}

// destMaps returns the maps that are to be inserted.
func destMaps(dest any) ([]map[string]any, bool) {
	switch d := dest.(type) {
	case map[string]any:
		return []map[string]any{d}, true
	case *map[string]any:
		return []map[string]any{*d}, true
	case []map[string]any:
		return d, true
	case *[]map[string]any:
		return *d, true
	}
	return nil, false
}
