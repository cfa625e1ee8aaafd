package gormoutbox

import (
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

const upsertCure = "save the row by itself (associations: Omit(clause.Associations) and save them apart), or use gormoutbox.Ignore(ctx) to write without an event"

// checkConflict admits upserts of which the outcome can be told. done says that it has also decided how;
// otherwise the statement is as good as a plain INSERT.
func (in *instance) checkConflict(db *gorm.DB, c *capture, elems []reflect.Value, set int, swap bool) (done bool, err error) {
	oc, ok := db.Statement.Clauses["ON CONFLICT"].Expression.(clause.OnConflict)
	if !ok {
		return false, in.fail(db, c, "its ON CONFLICT clause is not GORM's", "use clause.OnConflict")
	}
	m := c.model
	for _, f := range m.primary {
		for _, a := range oc.DoUpdates {
			// The key's own value changes nothing if only the key can be the conflict, and is compared exactly.
			same := sameExcluded(a, f.DBName) && in.traits.ReturnUpsert && targetsPrimaryKey(m, oc)
			if a.Column.Name == f.DBName && !same {
				return false, in.fail(db, c, "it changes the primary key", upsertCure)
			}
		}
	}
	switch {
	case in.traits.DuplicateKey:
		return in.checkDuplicate(db, c, oc, elems)
	case in.traits.Output:
		return in.checkMerge(db, c, oc, set)
	case !swap:
		return false, in.fail(db, c, "it is an upsert and its rows are not returned to the plugin", upsertCure)
	}
	c.conflict = true
	if oc.DoNothing || oc.UpdateAll && !in.updatesSome(db, m) {
		return false, nil // only inserted rows are returned
	}
	c.moves = m.annotation.key != "" && assignsKey(m, oc)
	byKey := targetsPrimaryKey(m, oc)
	if c.moves && !byKey {
		if targets(m.key, oc) {
			c.moves = false // the row that it meets has this aggregate id
		} else {
			return false, in.fail(db, c, "it may change the aggregate id of a row that can't be told", upsertCure)
		}
	}
	// Associations are saved with some columns at each save of their owner, mostly without a change.
	if byKey && set > 0 && (c.moves || !oc.UpdateAll) {
		found, err := in.read(db, m, setKeys(c.keys), readOptions{unscoped: true, lock: true})
		if err != nil {
			return false, err
		}
		c.held = found
		for _, a := range oc.DoUpdates {
			c.changed = append(c.changed, a.Column.Name)
		}
	}
	return false, nil
}

// assignsKey says whether an upsert that meets a row assigns a column of the aggregate id.
func assignsKey(m *model, oc clause.OnConflict) bool {
	return oc.UpdateAll || slices.ContainsFunc(oc.DoUpdates, func(a clause.Assignment) bool {
		return slices.Contains(m.key, m.schema.LookUpField(a.Column.Name))
	})
}

func setKeys(keys []rowKey) []rowKey {
	var set []rowKey
	for _, k := range keys {
		if k.set() {
			set = append(set, k)
		}
	}
	return set
}

// upserted gives the rows that an upsert returned their kinds, and leaves out those that it found with its values.
func (in *instance) upserted(c *capture, changes []change) ([]change, error) {
	oc, _ := c.stmt.Clauses["ON CONFLICT"].Expression.(clause.OnConflict)
	if oc.DoNothing {
		return changes, nil // returned means inserted
	}
	had, before := identities(setKeys(c.keys)), byIdentity(c.held)
	compared := !oc.UpdateAll && len(c.held) > 0
	byKey := targetsPrimaryKey(c.model, oc)
	madeKey := func(i int) bool {
		// One row for each value, in their order, unless the upsert has a condition.
		if len(changes) == len(c.keys) {
			return byKey && !c.keys[i].set()
		}
		return byKey && !had[changes[i].identity]
	}
	var doubtful []rowValue
	for i, ch := range changes {
		if _, held := before[ch.identity]; !held && (madeKey(i) || c.moves) {
			doubtful = append(doubtful, ch.rowValue)
		}
	}
	met, err := in.updatedRows(c, doubtful)
	if err != nil {
		return nil, err
	}
	out := make([]change, 0, len(changes))
	for i, ch := range changes {
		_, found := met[ch.identity]
		inserted := madeKey(i) && !found
		if !inserted {
			ch.kind = Upserted
		}
		was, there := before[ch.identity]
		before[ch.identity] = ch.rowValue // SQLite takes the same key twice in one statement
		switch {
		case !there && found && c.moves:
			return nil, in.fail(c.stmt.DB, c, "another transaction inserted the row in the meantime and its aggregate id is not known", "try again")
		case !there || inserted:
		case compared && c.unchanged(was, ch.rowValue):
			continue
		default:
			if err := c.moved(&ch, was); err != nil {
				return nil, err
			}
		}
		out = append(out, ch)
	}
	return out, nil
}

// updatedRows are those of the returned rows, by identity, that the upsert found: a sequence of PostgreSQL does not know of keys that
// were set by hand and may make one that is there, and another transaction may insert a row between our read and the write.
func (in *instance) updatedRows(c *capture, rows []rowValue) (map[string]rowValue, error) {
	if len(rows) == 0 || in.traits.UpdatedRow == "" {
		return nil, nil
	}
	db := c.stmt.DB
	keys, err := c.model.rowKeys(db, rows)
	if err != nil {
		return nil, err
	}
	found, err := in.find(db, c.model, all{in.keysIn(c.model, keys), clause.Expr{SQL: in.traits.UpdatedRow}}, readOptions{unscoped: true})
	return byIdentity(found), err
}

// moved notes the aggregate id that the row had.
func (c *capture) moved(ch *change, was rowValue) (err error) {
	if c.model.annotation.key != "" {
		ch.previousID, err = c.model.aggregateID(c.stmt.Context, was.row)
	}
	return err
}

// unchanged says whether an upsert of some columns found the row with their values.
func (c *capture) unchanged(was, now rowValue) bool {
	for _, name := range c.changed {
		f := c.model.schema.LookUpField(name)
		if f == nil || !sameValue(c.stmt, f, was.row, now.row) {
			return false
		}
	}
	return true
}

// updatesSome says whether GORM finds a column to update for UpdateAll. Without one it does nothing.
func (in *instance) updatesSome(db *gorm.DB, m *model) bool {
	columns, restricted := db.Statement.SelectAndOmitColumns(true, true)
	for _, name := range m.schema.DBNames {
		f := m.schema.LookUpField(name)
		selected, known := columns[name]
		if f.PrimaryKey || f.AutoCreateTime != 0 || known && !selected || !known && restricted {
			continue
		}
		if !f.HasDefaultValue || f.DefaultValueInterface != nil || strings.EqualFold(f.DefaultValue, "NULL") {
			return true
		}
	}
	return false
}

// sameExcluded says whether the assignment writes the key's own value, as UpdateAll does.
func sameExcluded(a clause.Assignment, name string) bool {
	col, ok := a.Value.(clause.Column)
	return ok && col.Table == "excluded" && col.Name == name
}

// targetsPrimaryKey says whether only the primary key can be the conflict, where the database has a target.
func targetsPrimaryKey(m *model, oc clause.OnConflict) bool {
	if oc.OnConstraint == "" && len(oc.Columns) == 0 {
		return oc.UpdateAll // GORM fills in the primary key
	}
	return targets(m.primary, oc)
}

// targets says whether the conflict is over just these columns.
func targets(fields []*schema.Field, oc clause.OnConflict) bool {
	if oc.OnConstraint != "" || len(oc.Columns) != len(fields) {
		return false
	}
	for _, c := range oc.Columns {
		if !slices.ContainsFunc(fields, func(f *schema.Field) bool {
			return f.DBName == c.Name || c.Name == clause.PrimaryKey && f.PrimaryKey && len(fields) == 1
		}) {
			return false
		}
	}
	return true
}
