package gormoutbox

import (
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// SQL Server: GORM's driver has the columns that the database makes returned by OUTPUT, and writes upserts as MERGE
// on the primary key.

// checkOutput refuses batches in which the driver gives rows the keys of others: it
// passes over values that have any column set which the database would have made.
func (in *instance) checkOutput(db *gorm.DB, c *capture, elems []reflect.Value, set int) error {
	if set == len(c.keys) || db.Statement.ReflectValue.Kind() == reflect.Struct {
		return nil
	}
	if _, isMaps := db.Statement.Dest.(*[]map[string]any); isMaps {
		return in.fail(db, c, "the driver appends the columns that the database makes to the list of maps", "pass values of "+c.model.name)
	}
	for _, e := range elems {
		if anySet(db, c.model.schema.FieldsWithDefaultDBValue, e) {
			return in.fail(db, c, "some values of the batch have a column set that the database makes for the others, and the driver gives them wrong keys", clientKeys)
		}
	}
	return nil
}

// checkMerge admits upserts of which each row is known by its key.
func (in *instance) checkMerge(db *gorm.DB, c *capture, oc clause.OnConflict, set int) (done bool, err error) {
	_, isMap := destMaps(db.Statement.Dest)
	switch set {
	case 0:
		return false, nil // the driver writes a plain INSERT
	case len(c.keys):
	default:
		return false, in.fail(db, c, "some rows of the upsert have a key and others have not", upsertCure)
	}
	if isMap {
		return false, in.fail(db, c, "it is an upsert from a map", "upsert a value of "+c.model.name)
	}
	before, err := in.read(db, c.model, c.keys, readOptions{unscoped: true, lock: true})
	if err != nil {
		return false, err
	}
	if f := c.model.schema.PrioritizedPrimaryField; f != nil && f.AutoIncrement && len(before) < countKeys(c.keys) {
		return false, in.fail(db, c, "MERGE inserts a row under another key than the one that is set, as the column is an identity", upsertCure)
	}
	c.conflict, c.held = true, before
	d := &duplicate{nothing: oc.DoNothing || oc.UpdateAll && !in.updatesSome(db, c.model), byKey: true}
	if d.seen, err = c.model.rowKeys(db, before); err != nil {
		return false, err
	}
	c.rows = func(db *gorm.DB, c *capture) ([]change, error) { return in.duplicated(db, c, d) }
	return true, nil
}
