package capturetest

import (
	"context"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// rawCases are writes that the plugin does not see, or is told not to.
func rawCases() []Case {
	ctx := context.Background()
	const raw = "raw SQL has no model"
	return []Case{
		{
			ID: "D14", Name: "cascade of the database", Code: `db.Delete(&Part{ID: 1}) // ON DELETE CASCADE`, world: cascading(),
			prepare: []any{&part{ID: 1}, &part{ID: 2, WholeID: new(1)}},
			Expect:  Expectations{{Result: Captured, Events: []Event{deleted("part", "1")}, Why: "what the database deletes itself is not seen", Unseen: true}},
			write:   func(db *gorm.DB) outcome { p := part{ID: 1}; return wrote(db.Delete(&p), &p) },
		},
		{
			ID: "R01", Name: "Exec", Code: `db.Exec("UPDATE accounts SET age = 8")`, prepare: one(),
			Expect: unseen(raw),
			write:  func(db *gorm.DB) outcome { return wrote(db.Exec("UPDATE accounts SET age = 8")) },
		},
		{
			ID: "R01", Name: "Exec with a model", Code: `db.Model(&Account{}).Exec("DELETE FROM accounts")`, prepare: one(),
			Expect: unseen(raw),
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(&account{}).Exec("DELETE FROM accounts")) },
		},
		{
			ID: "R01", Name: "Raw", Code: `db.Raw("SELECT 1").Scan(&n)`, prepare: one(),
			Expect: unseen(raw),
			write:  func(db *gorm.DB) outcome { var n int; return wrote(db.Raw("SELECT 1").Scan(&n), &n) },
		},
		{
			ID: "R01", Name: "generics, Exec", Code: `gorm.G[Account](db).Exec(ctx, "DELETE FROM accounts")`, prepare: one(),
			Expect: unseen(raw),
			write:  func(db *gorm.DB) outcome { return did(gorm.G[account](db).Exec(ctx, "DELETE FROM accounts")) },
		},
		{
			ID: "R02", Name: "Ignore", Code: `db.WithContext(gormoutbox.Ignore(ctx)).Create(&Account{Name: "a"})`, prepare: one(),
			Expect: unseen("the context says so"),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.WithContext(gormoutbox.Ignore(ctx)).Create(&a), &a)
			},
		},
		{
			ID: "R02", Name: "Ignore, bypassing the model", Code: `db.WithContext(gormoutbox.Ignore(ctx)).Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8})`, prepare: one(),
			Expect: unseen("the context says so"),
			write: func(db *gorm.DB) outcome {
				return wrote(db.WithContext(gormoutbox.Ignore(ctx)).Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8}))
			},
		},
		{
			ID: "R02", Name: "model without annotation", Code: `db.Create(&Lang{Code: "de"})`,
			Expect: none("the model is not annotated"),
			write:  func(db *gorm.DB) outcome { l := lang{Code: "de"}; return wrote(db.Create(&l), &l) },
		},
	}
}

// cascading has a table whose rows the database deletes with others.
func cascading() *world {
	return &world{
		tables: []table{tableOf("part", ofPart)},
		create: func(db *gorm.DB) error {
			return db.Exec("CREATE TABLE parts (id INT PRIMARY KEY, whole_id INT, FOREIGN KEY (whole_id) REFERENCES parts (id) ON DELETE CASCADE)").Error
		},
	}
}
