package gormoutbox

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// MySQL and MariaDB have ON DUPLICATE KEY UPDATE: any unique index may be the conflict, nothing is
// returned by MySQL, and counts depend on the connection. So the rows that the upsert could meet are read before
// and after it; what is new or has changed was written.
//
// The first read finds them in the transaction's snapshot, without a lock: it would lock gaps, and upserts of new rows
// would deadlock. What it found may be old, so these rows are then locked by their keys and taken as they are now. Rows that the
// snapshot does not have are seen afterwards if, and only if, this transaction wrote them. So it is at the
// default isolation; at READ COMMITTED a row that another transaction committed between the
// reads counts as written by this one, and the event still says what the row holds.

// checkDuplicate decides how the rows of an upsert are told.
func (in *instance) checkDuplicate(db *gorm.DB, c *capture, oc clause.OnConflict, elems []reflect.Value) (done bool, err error) {
	if _, isMap := destMaps(db.Statement.Dest); isMap {
		return false, in.fail(db, c, "it is an upsert from a map", "upsert a value of "+c.model.name)
	}
	indexes, err := in.uniqueIndexes(db, c)
	if err != nil {
		return false, err
	}
	// An upsert that may change an aggregate id has to know the one before, whoever made the row: it does lock gaps.
	moves := c.model.annotation.key != "" && assignsKey(c.model, oc)
	d := &duplicate{byKey: len(indexes) == 1, locked: moves, at: map[string]int{}, values: len(elems)}
	identified, err := in.candidates(db, c, d, indexes, elems)
	if err != nil {
		return false, err
	}
	if len(d.meet) == 0 {
		return false, nil // nothing that it could conflict with: it inserts
	}
	seen, err := in.find(db, c.model, anyOf(d.meet), readOptions{unscoped: true, lock: moves})
	if err != nil {
		return false, err
	}
	d.nothing = oc.DoNothing || oc.UpdateAll && !in.updatesSome(db, c.model)
	if d.seen, err = c.model.rowKeys(db, seen); err != nil {
		return false, err
	}
	c.conflict = true
	if c.held, err = in.read(db, c.model, d.seen, readOptions{unscoped: true, lock: true}); err != nil {
		return false, err
	}
	if !identified && !in.returnsKeys(db, c.model) {
		if err := in.checkCounted(db, c, len(indexes)); err != nil {
			return false, err
		}
		c.counted = true
	}
	c.rows = func(db *gorm.DB, c *capture) ([]change, error) { return in.duplicated(db, c, d) }
	return true, nil
}

// duplicate is what an upsert could meet.
type duplicate struct {
	meet []clause.Expression
	// seen are the keys of the rows that were there.
	seen []rowKey
	// nothing says that it leaves them as they are, byKey that only the primary key can be the conflict.
	nothing, byKey bool
	// locked says that the rows that were there were read as they are now and not as in the snapshot, which may have others
	// that are gone. So the reads after the write have to be.
	locked bool
	// fields are those of the unique indexes, and at is where in the user's list a value of one stands.
	fields [][]*schema.Field
	at     map[string]int
	values int
}

// place is where in the user's list the value stands that the row has an index's columns of, after all if it can't be told.
func (d *duplicate) place(stmt *gorm.Statement, rv rowValue) int {
	place := d.values
	for n, fields := range d.fields {
		values := make([]any, len(fields))
		for i, f := range fields {
			values[i], _ = f.ValueOf(stmt.Context, rv.row)
		}
		if at, ok := d.at[indexed(n, values)]; ok {
			place = min(place, at)
		}
	}
	return place
}

// indexed is the text of the values of the columns of an index.
func indexed(n int, values []any) string {
	parts := make([]string, len(values), len(values)+1)
	for i, v := range values {
		parts[i], _ = keyText(v) // only the order hangs on it
	}
	return joinKey(append(parts, strconv.Itoa(n)))
}

// duplicated compares the rows that the upsert could meet with what they were.
func (in *instance) duplicated(db *gorm.DB, c *capture, d *duplicate) ([]change, error) {
	m := c.model
	keys, made, err := in.keysAfter(db, c)
	if err != nil {
		return nil, err
	}
	// Those that were there, as they are now, and then new ones.
	rows, err := in.read(db, m, d.seen, readOptions{unscoped: true, again: true})
	if err != nil {
		return nil, err
	}
	found, err := in.read(db, m, keys, readOptions{unscoped: true, again: d.locked})
	if err != nil {
		return nil, err
	}
	if d.byKey {
		if err := in.checkThere(db, c, keys, found); err != nil {
			return nil, err
		}
	}
	seen := identities(d.seen)
	for _, rv := range rows {
		seen[rv.identity] = true // a key may be another spelling of the one that was asked for
	}
	if !d.byKey { // the rows may have other keys than the values
		others, err := in.metByOthers(db, c, d, seen, byIdentity(found))
		if err != nil {
			return nil, err
		}
		found = append(found, others...)
	}
	for _, rv := range found {
		if !seen[rv.identity] {
			rows = append(rows, rv)
		}
	}
	was := byIdentity(c.held)
	var out []change
	rows = inOrder(keys, rows)
	at := map[string]int{}
	for i, k := range keys {
		if len(keys) == len(c.keys) { // else a key's place is not that of its value
			at[k.identity] = i
		}
	}
	place := func(rv rowValue) int {
		if i, ok := at[rv.identity]; ok {
			return i
		}
		return d.place(db.Statement, rv)
	}
	slices.SortStableFunc(rows, func(a, b rowValue) int { return place(a) - place(b) })
	for _, rv := range rows {
		ch := change{rowValue: rv, kind: Upserted}
		if old, there := was[rv.identity]; there {
			if d.nothing || m.sameRow(db.Statement, old, rv) {
				continue
			}
			if err := c.moved(&ch, old); err != nil {
				return nil, err
			}
		} else if d.nothing || d.byKey && made[rv.identity] {
			ch.kind = Created
		}
		out = append(out, ch)
	}
	return out, nil
}

// metByOthers are rows that the values met by another unique index than the primary key and that are neither seen nor listed.
//
// They are read as they are now. In the snapshot a unique index may have two rows for one value, one that is gone meanwhile
// and one that this statement wrote, and InnoDB returns the first. Of those that are there now another transaction may have
// written some, which the statement met by another index: by its primary key the snapshot has such a row otherwise or not at all.
func (in *instance) metByOthers(db *gorm.DB, c *capture, d *duplicate, seen map[string]bool, listed map[string]rowValue) (rows []rowValue, err error) {
	now, err := in.find(db, c.model, anyOf(d.meet), readOptions{unscoped: true, again: true})
	if err != nil {
		return nil, err
	}
	for _, rv := range now {
		if _, ok := listed[rv.identity]; !ok && !seen[rv.identity] {
			rows = append(rows, rv)
		}
	}
	if d.locked || len(rows) == 0 {
		return rows, nil
	}
	keys, err := c.model.rowKeys(db, rows)
	if err != nil {
		return nil, err
	}
	visible, err := in.read(db, c.model, keys, readOptions{unscoped: true})
	if err != nil {
		return nil, err
	}
	own := byIdentity(visible)
	return slices.DeleteFunc(rows, func(rv rowValue) bool {
		was, ok := own[rv.identity]
		return !ok || !c.model.sameRow(db.Statement, was, rv)
	}), nil
}

// checkThere makes sure that there is a row for each key: a trigger may have given it another. A key that is not among those of the rows may
// still be another spelling of one.
func (in *instance) checkThere(db *gorm.DB, c *capture, keys []rowKey, found []rowValue) error {
	known := byIdentity(found)
	for _, k := range keys {
		if _, ok := known[k.identity]; ok {
			continue
		}
		spelled, err := in.find(db, c.model, in.keysIn(c.model, []rowKey{k}), readOptions{unscoped: true, again: true})
		if err != nil {
			return err
		}
		if len(spelled) == 0 {
			return in.fail(db, c, "a row can't be found by its key after the write", "see whether a trigger of the table changes keys")
		}
	}
	return nil
}

// keysAfter are the keys of the values after an upsert, as far as they are known, and the identities of those that the database made.
func (in *instance) keysAfter(db *gorm.DB, c *capture) (keys []rowKey, made map[string]bool, err error) {
	elems, problem := c.model.elements(db.Statement.ReflectValue)
	if problem != "" || len(elems) < len(c.keys) {
		return nil, nil, in.fail(db, c, "its value was changed by the insert", "create values of "+c.model.name)
	}
	after, _, err := c.model.keysOf(db, elems[:len(c.keys)])
	if err != nil {
		return nil, nil, err
	}
	made = map[string]bool{}
	for i, k := range c.keys {
		if k.set() {
			keys = append(keys, k)
		} else if after[i].set() && (c.counted || in.returnsKeys(db, c.model)) {
			keys = append(keys, after[i])
			made[after[i].identity] = true
		}
	}
	return keys, made, nil
}

func identities(keys []rowKey) map[string]bool {
	out := make(map[string]bool, len(keys))
	for _, k := range keys {
		out[k.identity] = true
	}
	return out
}

// checkCounted admits values without a key beside values whose rows are there, as new children are saved
// beside old ones: the server numbers the new rows one after the other, and so does GORM. A set key that is new
// could raise the server's counter in between, and another unique index could turn a new row into an old one.
func (in *instance) checkCounted(db *gorm.DB, c *capture, indexes int) error {
	there := byIdentity(c.held)
	f := c.autoKey()
	for _, k := range c.keys {
		_, old := there[k.identity]
		if f == nil || indexes > 1 || k.set() && !old {
			return in.fail(db, c, "some rows of the upsert have a key or another unique value and others have not, and GORM numbers them wrongly", upsertCure)
		}
	}
	return in.checkStep(db, c, f)
}

// candidates are the conditions by which the values could meet rows of the table, one for each unique index. identified says
// that each value has one.
func (in *instance) candidates(db *gorm.DB, c *capture, d *duplicate, indexes []dialect.UniqueIndex, elems []reflect.Value) (identified bool, err error) {
	selected, restricted := db.Statement.SelectAndOmitColumns(true, false)
	has := make([]bool, len(elems))
	for _, index := range indexes {
		fields := make([]*schema.Field, len(index.Columns))
		for i, name := range index.Columns {
			f := c.model.schema.LookUpField(name)
			if f == nil || index.Partial {
				return false, in.fail(db, c, "the unique index "+index.Name+" is over a prefix, an expression or a column that the model has not, so its conflicts can't be told", upsertCure)
			}
			on, known := selected[f.DBName]
			if (known && !on || !known && restricted) && !f.PrimaryKey {
				return false, in.fail(db, c, "Select or Omit leaves out "+f.DBName+", which has a unique index", upsertCure)
			}
			fields[i] = f
		}
		d.fields = append(d.fields, fields)
		var values [][]any
		for i, elem := range elems {
			v, ok, err := in.uniqueValues(db, c, fields, elem)
			if err != nil {
				return false, err
			}
			if ok {
				values, has[i] = append(values, v), true
				if text := indexed(len(d.fields)-1, v); d.at[text] == 0 {
					d.at[text] = i
				}
			}
		}
		if len(values) > 0 {
			column, args := schema.ToQueryValues(clause.CurrentTable, index.Columns, values)
			d.meet = append(d.meet, clause.IN{Column: column, Values: args})
		}
	}
	identified = true
	for _, ok := range has {
		identified = identified && ok
	}
	return identified, nil
}

// uniqueValues are the values of an index's columns; not ok if the row can't conflict, as one is NULL or a number that
// the database will make.
func (in *instance) uniqueValues(db *gorm.DB, c *capture, fields []*schema.Field, elem reflect.Value) (values []any, ok bool, err error) {
	for _, f := range fields {
		v, zero := f.ValueOf(db.Statement.Context, elem)
		switch {
		case !zero:
		case f.AutoIncrement:
			return nil, false, nil
		case f.DefaultValueInterface != nil:
			v = f.DefaultValueInterface
		case f.HasDefaultValue || f.AutoCreateTime != 0 || f.AutoUpdateTime != 0:
			return nil, false, in.fail(db, c, f.DBName+" has a unique index and its value is made later", "set it before the save")
		}
		null, err := isNull(v)
		if err != nil {
			return nil, false, fmt.Errorf("gormoutbox: reading %s.%s: %w", c.model.name, f.Name, err)
		}
		if null {
			return nil, false, nil
		}
		values = append(values, v)
	}
	return values, true, nil
}

// isNull says whether the value is NULL for the database.
func isNull(v any) (bool, error) {
	if rv := reflect.ValueOf(v); v == nil || rv.Kind() == reflect.Pointer && rv.IsNil() {
		return true, nil
	}
	if valuer, ok := v.(driver.Valuer); ok {
		value, err := valuer.Value()
		return value == nil, err
	}
	return false, nil
}

// uniqueIndexes reads the table's unique indexes from the catalogue, once a table.
func (in *instance) uniqueIndexes(db *gorm.DB, c *capture) ([]dialect.UniqueIndex, error) {
	my, ok := in.dialect.(dialect.MySQL)
	if !ok {
		return nil, errors.New("gormoutbox: unique indexes are read on MySQL only") // not reached
	}
	name := tableName(db.Statement)
	if found, ok := in.unique.Load(name); ok {
		return found.([]dialect.UniqueIndex), nil
	}
	indexes, err := my.UniqueIndexes(db.Statement.Context, unprepared(db.Statement.ConnPool), name)
	if err != nil {
		return nil, fmt.Errorf("gormoutbox: reading the unique indexes of %s: %w", name, err)
	}
	if len(indexes) == 0 {
		return nil, in.fail(db, c, "the catalogue shows no unique index of its table", upsertCure)
	}
	in.unique.Store(name, indexes)
	return indexes, nil
}

// anyOf joins conditions by OR, in parentheses.
type anyOf []clause.Expression

// Build implements clause.Expression.
func (a anyOf) Build(b clause.Builder) {
	_ = b.WriteByte('(') // to a strings.Builder, which can't fail
	for i, e := range a {
		if i > 0 {
			_, _ = b.WriteString(" OR ")
		}
		e.Build(b)
	}
	_ = b.WriteByte(')')
}
