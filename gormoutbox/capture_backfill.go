package gormoutbox

import (
	"database/sql/driver"
	"reflect"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// backfilled are the fields that GORM itself would have had returned by an
// INSERT and put into the user's values, none if it would not have used RETURNING.
func backfilled(db *gorm.DB, m *model) []*schema.Field {
	if !returning(db, "create") {
		return nil
	}
	if !m.unreadable {
		return m.schema.FieldsWithDefaultDBValue
	}
	var fields []*schema.Field
	for _, f := range m.schema.FieldsWithDefaultDBValue {
		if f.Readable {
			fields = append(fields, f)
		}
	}
	return fields
}

// filled are the fields that the database makes and GORM puts into the user's values.
func (in *instance) filled(db *gorm.DB, m *model) []*schema.Field {
	if in.traits.Output {
		return m.schema.FieldsWithDefaultDBValue
	}
	return backfilled(db, m)
}

// backfill gives the user's values and RowsAffected what they would have without
// the plugin, from the rows that our RETURNING clause took away. It does what gorm.Scan does
// with its ScanUpdate mode, down to the wrong elements after DO NOTHING: code of the user may
// rely on it, and our events do not.
func (c *capture) backfill(db *gorm.DB) error {
	rows, fields, value := c.scan.rows, backfilled(db, c.model), c.scan.value
	if len(fields) == 0 {
		return nil // GORM had counted the rows and touched nothing
	}
	if _, ok := destMaps(c.scan.dest); ok {
		return c.backfillMaps(db, fields)
	}
	switch value.Kind() {
	case reflect.Struct:
		db.RowsAffected = int64(min(rows.Len(), 1))
		if rows.Len() > 0 {
			copyFields(db, fields, value, rows.Index(0))
		}
	case reflect.Slice, reflect.Array:
		oc, _ := db.Statement.Clauses["ON CONFLICT"].Expression.(clause.OnConflict)
		at := 0
		for i := range rows.Len() {
			for oc.DoNothing && at < value.Len() && anySet(db, fields, value.Index(at)) {
				at++
			}
			if at >= value.Len() {
				break
			}
			copyFields(db, fields, value.Index(at), rows.Index(i))
			at++
		}
		db.RowsAffected = int64(at)
	default:
	}
	return nil
}

// anySet says whether the user has set one of the fields.
func anySet(db *gorm.DB, fields []*schema.Field, elem reflect.Value) bool {
	for _, f := range fields {
		if _, zero := f.ValueOf(db.Statement.Context, elem); !zero {
			return true
		}
	}
	return false
}

func copyFields(db *gorm.DB, fields []*schema.Field, dst, src reflect.Value) {
	for _, f := range fields {
		f.ReflectValueOf(db.Statement.Context, dst).Set(f.ReflectValueOf(db.Statement.Context, src))
	}
}

// backfillMaps puts the columns into the one map, or appends a map for each row to the list, as GORM does.
func (c *capture) backfillMaps(db *gorm.DB, fields []*schema.Field) error {
	rows := c.scan.rows
	fill := func(m map[string]any, row reflect.Value) error {
		for _, f := range fields {
			value := f.ReflectValueOf(db.Statement.Context, row).Interface()
			if valuer, ok := value.(driver.Valuer); ok {
				var err error
				if value, err = valuer.Value(); err != nil {
					return err
				}
			}
			m[f.DBName] = value
		}
		return nil
	}
	switch dest := c.scan.dest.(type) {
	case map[string]any:
		db.RowsAffected = int64(min(rows.Len(), 1))
		if rows.Len() > 0 {
			return fill(dest, rows.Index(0))
		}
	case *map[string]any:
		db.RowsAffected = int64(min(rows.Len(), 1))
		if rows.Len() > 0 {
			return fill(*dest, rows.Index(0))
		}
	case *[]map[string]any:
		for i := range rows.Len() {
			m := map[string]any{}
			if err := fill(m, rows.Index(i)); err != nil {
				return err
			}
			*dest = append(*dest, m)
		}
	default:
	}
	return nil
}
