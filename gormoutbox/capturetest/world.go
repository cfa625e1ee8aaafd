package capturetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
)

// world is the tables that a case runs on.
type world struct {
	tables []table
	// configure changes the *gorm.DB before the plugin is registered.
	configure func(db *gorm.DB) error
	// create makes the tables; nil means by AutoMigrate.
	create func(db *gorm.DB) error
	// probe says that the table of seats is there, to probe the database with.
	probe bool
}

// models are the annotated models, for the plugin's configuration.
func (w world) models() []any {
	var all []any
	for _, t := range w.tables {
		if t.aggregate != "" && t.name == "" {
			all = append(all, t.model)
		}
	}
	return all
}

// table is a table and how its rows become expected payloads.
type table struct {
	// aggregate is empty if the model is not annotated.
	aggregate string
	// model is nil for a table without a model.
	model any
	// name is that of a table that is not the model's own.
	name string
	// rows reads all rows by their aggregate ids.
	rows func(db *gorm.DB) (map[string]savedRow, error)
}

// savedRow is a row as a model reads it.
type savedRow struct {
	full    string
	payload map[string]any
}

// tableOf is the table of an annotated model. The key makes the aggregate id, and hidden are the paths
// of the JSON that no event has: excluded fields, fields that GORM does not read, associations.
func tableOf[T any](aggregate string, key func(*T) string, hidden ...string) table {
	rows := func(db *gorm.DB) (map[string]savedRow, error) {
		var all []T
		if err := db.Find(&all).Error; err != nil {
			return nil, err
		}
		saved := make(map[string]savedRow, len(all))
		for i := range all {
			text, err := json.Marshal(&all[i])
			if err != nil {
				return nil, err
			}
			payload, err := object(text)
			if err != nil {
				return nil, err
			}
			for _, path := range hidden {
				remove(payload, strings.Split(path, "."))
			}
			saved[key(&all[i])] = savedRow{full: string(text), payload: payload}
		}
		return saved, nil
	}
	return table{aggregate: aggregate, model: new(T), rows: rows}
}

func (t table) named(name string) table {
	t.name = name
	return t
}

func remove(from map[string]any, path []string) {
	if len(path) == 1 {
		delete(from, path[0])
	} else if inner, ok := from[path[0]].(map[string]any); ok {
		remove(inner, path[1:])
	}
}

func ofAccount(a *account) string { return fmt.Sprint(a.ID) }

func ofPart(p *part) string { return fmt.Sprint(p.ID) }

// commonWorld has the tables of almost all cases; those that others refer to come first.
func commonWorld() world {
	return world{
		probe: true,
		tables: []table{
			tableOf("account", ofAccount, "Secret"),
			tableOf("account", ofAccount, "Secret").named(shard),
			tableOf("member", func(m *member) string { return fmt.Sprint(m.ID) }),
			tableOf("seat", func(s *seat) string { return fmt.Sprintf("%d|%s", s.Tenant, s.No) }),
			tableOf("order", func(o *order) string { return o.ID.String() }, "Card"),
			tableOf("paper", func(p *paper) string { return p.ID.String() }),
			tableOf("tag", func(g *tag) string { return g.Name }),
			tableOf("ticket", func(t *ticket) string { return t.No }),
			tableOf("site", func(s *site) string { return fmt.Sprint(s.ID) }, "Home.Zip", "Ignored", "Hidden"),
			tableOf("reserved", func(r *reserved) string { return fmt.Sprint(r.Key) }),
			tableOf("document", func(d *document) string { return fmt.Sprint(d.ID) }),
			tableOf("versioned", func(v *versioned) string { return fmt.Sprint(v.ID) }),
			tableOf("ledger", func(l *ledger) string { return fmt.Sprint(l.ID) }, "Note"),
			tableOf("made", func(m *made) string { return m.ID }),
			tableOf("company", func(c *company) string { return fmt.Sprint(c.ID) }),
			tableOf("person", func(p *person) string { return fmt.Sprint(p.ID) }, "Company", "Badge", "Pets", "Toys", "Langs", "Clubs"),
			tableOf("badge", func(b *badge) string { return fmt.Sprint(b.ID) }),
			tableOf("pet", func(p *pet) string { return fmt.Sprint(p.ID) }),
			tableOf("toy", func(t *toy) string { return t.ID.String() }),
			{model: &lang{}},
			tableOf("club", func(c *club) string { return fmt.Sprint(c.ID) }),
			tableOf("enrolment", func(e *enrolment) string { return fmt.Sprintf("%d|%d", e.PersonID, e.ClubID) }),
			{name: "person_langs"},
			{name: "keylesses", model: &keyless{}},
		},
		configure: func(db *gorm.DB) error { return db.SetupJoinTable(&person{}, "Clubs", &enrolment{}) },
		create: func(db *gorm.DB) error {
			err := db.AutoMigrate(
				&account{}, &member{}, &seat{}, &order{}, &paper{}, &tag{}, &ticket{}, &site{}, &reserved{}, &document{}, &versioned{}, &ledger{},
				&company{}, &person{}, &badge{}, &pet{}, &toy{}, &lang{}, &club{}, &enrolment{}, &keyless{},
			)
			if err == nil {
				err = db.Table(shard).AutoMigrate(&account{})
			}
			if err == nil {
				err = db.Exec("CREATE TABLE mades (id VARCHAR(40) DEFAULT (lower('MADE')) PRIMARY KEY, name VARCHAR(50))").Error
			}
			return err
		},
	}
}

// fresh copies a prepared value, as GORM writes into what it is given.
func fresh(v any) any {
	from := reflect.ValueOf(v).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	if from.Kind() == reflect.Slice {
		to.Elem().Set(reflect.AppendSlice(reflect.MakeSlice(from.Type(), 0, from.Len()), from))
	}
	return to.Interface()
}
