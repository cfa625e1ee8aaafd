package gormoutbox

import (
	"reflect"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// sameRow says whether two states of a row are alike in all columns, excluded ones too.
func (m *model) sameRow(stmt *gorm.Statement, a, b rowValue) bool {
	return !slices.ContainsFunc(m.schema.Fields, func(f *schema.Field) bool {
		return inRow(f) && !sameValue(stmt, f, a.row, b.row)
	})
}

// changedColumns are the columns that differ, without excluded ones.
func (m *model) changedColumns(stmt *gorm.Statement, a, b rowValue) []string {
	out := []string{}
	for _, f := range m.schema.Fields {
		if inRow(f) && !m.excluded[f.DBName] && !slices.Contains(out, f.DBName) && !sameValue(stmt, f, a.row, b.row) {
			out = append(out, f.DBName)
		}
	}
	slices.Sort(out)
	return out
}

// sameValue compares the Go values, as ValueOf wraps those of serializers.
func sameValue(stmt *gorm.Statement, f *schema.Field, a, b reflect.Value) bool {
	x, y := f.ReflectValueOf(stmt.Context, a).Interface(), f.ReflectValueOf(stmt.Context, b).Interface()
	switch t := x.(type) { // y is of the same field, and so of the same type
	case time.Time:
		return t.Equal(y.(time.Time))
	case *time.Time:
		if u := y.(*time.Time); t != nil && u != nil {
			return t.Equal(*u)
		}
	}
	return reflect.DeepEqual(x, y)
}

// cloneRow copies a row; what it points to is shared.
func cloneRow(row reflect.Value) reflect.Value {
	c := reflect.New(row.Type()).Elem()
	c.Set(row)
	return c
}
