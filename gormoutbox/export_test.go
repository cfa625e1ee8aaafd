package gormoutbox

import (
	"reflect"

	"gorm.io/gorm"
)

// TakeRowsFromMemory plants a fault: events say what the user's values say, as a plugin would have it that does not
// ask the database. It is registered after the outbox plugin.
func TakeRowsFromMemory(db *gorm.DB) error {
	plugins := pluginsOf(db)
	if len(plugins) == 0 {
		return nil
	}
	in, err := plugins[0].on(db)
	if err != nil {
		return err
	}
	plant := func(db *gorm.DB) {
		c := in.captureOf(db)
		if c == nil || c.rows == nil {
			return
		}
		rows := c.rows
		c.rows = func(db *gorm.DB, c *capture) ([]change, error) {
			changes, err := rows(db, c)
			elems, _, problem := in.createElements(db.Statement, c.model)
			if err != nil || problem != "" {
				return changes, err
			}
			for i := range changes {
				for j, e := range elems {
					k, err := c.model.primaryKey(db.Statement.Context, e)
					if err == nil && (k.identity == changes[i].identity || len(elems) == 1) {
						memory := reflect.New(c.model.schema.ModelType).Elem()
						memory.Set(elems[j])
						changes[i].row = memory
					}
				}
			}
			return changes, nil
		}
	}
	cb := db.Callback()
	for _, register := range []func() error{
		func() error { return cb.Create().Before("gormoutbox:emit_create").Register("plant_create", plant) },
		func() error { return cb.Update().Before("gormoutbox:emit_update").Register("plant_update", plant) },
		func() error { return cb.Delete().Before("gormoutbox:emit_delete").Register("plant_delete", plant) },
	} {
		if err := register(); err != nil {
			return err
		}
	}
	return nil
}
