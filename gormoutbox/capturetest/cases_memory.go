package capturetest

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// jsonSet sets a field of a JSON column in the database, as datatypes.JSONSet does.
type jsonSet struct{ value int }

// GormValue implements gorm.Valuer.
func (s jsonSet) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	if db.Name() == "postgres" {
		return gorm.Expr("(jsonb_set(body::jsonb, '{a}', to_jsonb(?::int)))::json", s.value)
	}
	return gorm.Expr("JSON_SET(body, '$.a', ?)", s.value)
}

// memoryCases are those where the value in memory is not the row, and the event must be the row.
func memoryCases() []Case {
	u := updated("account", "1")
	return []Case{
		{
			ID: "M01", Name: "memory: dirty fields beside the updated one", Code: `a.Name = "dirty"; db.Model(&a).Update("age", 8)`, prepare: one(),
			Expect: expect(u.with("Name", "one").with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				a.Name = "dirty"
				return wrote(db.Model(&a).Update("age", 8), &a)
			},
		},
		{
			ID: "C15", Name: "memory: fields that Select leaves out", Code: `db.Select("Name").Create(&Account{Name: "a", Age: 9, Status: "x"})`,
			Expect: expect(created("account", "#1").with("Status", "new").with("Score", 18)),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a", Age: 9, Status: "x"}
				return wrote(db.Select("Name").Create(&a), &a)
			},
		},
		{
			ID: "U06", Name: "memory: upsert of one column", Code: `db.Clauses(byID("status")).Create(&Account{ID: 1, Status: "s", Age: 99})`, prepare: one(),
			Expect: expect(upserted("account", "1").with("Age", 7).with("Name", "one").with("Status", "s")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "s", Age: 99}
				return wrote(db.Clauses(onConflict("status")).Create(&a), &a)
			},
		},
		{
			ID: "A02", Name: "memory: changed child of a has-many", Code: `db.Model(&p2).Association("Pets").Append(&Pet{ID: 1, Name: "dirty"})`, prepare: family(),
			Expect: expect(upserted("pet", "1").with("Name", "rex")),
			write: func(db *gorm.DB) outcome {
				p := person{ID: 2, Name: "q"}
				return did(db.Model(&p).Association("Pets").Append(&pet{ID: 1, Name: "dirty"}), &p)
			},
		},
		{
			ID: "M03", Name: "memory: expression", Code: `db.Model(&a).Updates(map[string]any{"age": gorm.Expr("age * 2"), "name": gorm.Expr("upper(name)")})`, prepare: one(),
			Expect: expect(u.with("Age", 14).with("Name", "ONE").changed("age,name")),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Updates(map[string]any{"age": gorm.Expr("age * 2"), "name": gorm.Expr("upper(name)")}), &a)
			},
		},
		{
			ID: "M17", Name: "memory: JSON changed by the database", Code: `db.Model(&d).Update("body", datatypes.JSONSet("body").Set("a", 2))`, prepare: []any{&document{ID: 1, Body: `{"a": 1}`}},
			Expect: expect(updated("document", "1").changed("body")),
			write: func(db *gorm.DB) outcome {
				d := document{ID: 1, Body: `{"a": 1}`}
				return wrote(db.Model(&d).Update("body", jsonSet{2}), &d)
			},
		},
		{
			ID: "M16", Name: "memory: map value of a serialized field", Code: "db.Model(&Account{ID: 1}).Updates(map[string]any{\"tags\": `[\"y\"]`})", prepare: one(),
			Expect: expect(u.with("Tags", []any{"y"})),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Model(&a).Updates(map[string]any{"tags": `["y"]`}), &a)
			},
		},
		{
			ID: "C01", Name: "memory: column that the database makes", Code: `db.Create(&Account{Name: "a"}) // Grade has a default of the database`,
			Expect: expect(created("account", "#1").with("Grade", "a")),
			write:  func(db *gorm.DB) outcome { a := account{Name: "a"}; return wrote(db.Create(&a), &a) },
		},
		{
			ID: "C27", Name: "memory: precision of a time", Code: `db.Create(&Order{ID: id, PaidAt: &at})`,
			Expect: expect(created("order", id(1).String())),
			write: func(db *gorm.DB) outcome {
				at := time.Date(2020, 2, 3, 4, 5, 6, 987654321, time.FixedZone("", 3600))
				o := order{ID: id(1), PaidAt: &at}
				return wrote(db.Create(&o), &o)
			},
		},
		{
			ID: "M18", Name: "memory: version that the database counts", Code: `db.Model(&v).Update("name", "b")`, prepare: []any{&versioned{ID: 1, Name: "a", Version: 1}},
			Expect: expect(updated("versioned", "1").with("Name", "b").with("Version", 2)),
			write: func(db *gorm.DB) outcome {
				v := versioned{ID: 1, Name: "a", Version: 1}
				return wrote(db.Model(&v).Update("name", "b"), &v)
			},
		},
		{
			ID: "U02", Name: "memory: conflict with somebody else's row", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Account{{ID: 1, Name: "mine"}, {ID: 2, Name: "mine"}})`, prepare: one(),
			Expect: expect(created("account", "2").with("Name", "mine")),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1, Name: "mine"}, {ID: 2, Name: "mine"}}
				return wrote(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&all), &all)
			},
		},
	}
}
