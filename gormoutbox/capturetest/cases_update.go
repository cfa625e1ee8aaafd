package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// one and two are prepared accounts.
func one() []any { return []any{&account{ID: 1, Name: "one", Age: 7, Secret: "s"}} }

func two() []any { return append(one(), &account{ID: 2, Name: "two", Age: 7}) }

func ofOne() account { return account{ID: 1, Name: "one", Age: 7, Secret: "s"} }

// noChange is an update that finds the values already there.
func noChange(e Event) Expectations {
	return expect(e).except(none("the database does not count a row that did not change"), MySQL, MariaDB).except(expect(e), FoundRows)
}

// updateCases are updates of rows whose key is known.
func updateCases() []Case {
	ctx := context.Background()
	u := updated("account", "1")
	nick := "n"
	return []Case{
		{
			ID: "M01", Name: "Update", Code: `db.Model(&a).Update("age", 8)`, prepare: two(), modes: []mode{skipTransaction, prepared},
			Expect: expect(u.with("Age", 8).changed("age")),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("age", 8), &a) },
		},
		{
			ID: "M01", Name: "Update of an excluded column", Code: `db.Model(&a).Update("secret", "new")`, prepare: one(),
			Expect: expect(u),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("secret", "new"), &a) },
		},
		{
			ID: "M02", Name: "same value", Code: `db.Model(&a).Update("age", 7)`, prepare: one(),
			Expect: noChange(u),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("age", 7), &a) },
		},
		{
			ID: "M03", Name: "expression", Code: `db.Model(&a).Update("age", gorm.Expr("age + ?", 1))`, prepare: one(), modes: []mode{skipTransaction},
			Expect: expect(u.with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Update("age", gorm.Expr("age + ?", 1)), &a)
			},
		},
		{
			ID: "M03", Name: "subquery", Code: `db.Model(&a).Update("age", db.Model(&Account{}).Select("max(age) + 1"))`, prepare: []any{&account{ID: 1, Age: 7}, &seat{Tenant: 40, No: "a"}},
			Expect: expect(u.with("Age", 40)),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Update("age", db.Model(&seat{}).Select("max(tenant)")), a.ID, a.Name)
			},
		},
		{
			ID: "M04", Name: "Updates, struct", Code: `db.Model(&a).Updates(Account{Age: 9})`, prepare: one(),
			Expect: expect(u.with("Age", 9).with("Name", "one").changed("age")),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Updates(account{Age: 9}), &a) },
		},
		{
			ID: "M04", Name: "Updates, map", Code: `db.Model(&a).Updates(map[string]any{"Age": 9, "name": "x"})`, prepare: one(),
			Expect: expect(u.with("Age", 9).with("Name", "x").changed("age,name")),
			write: func(db *gorm.DB) outcome {
				a, m := ofOne(), map[string]any{"Age": 9, "name": "x"}
				return wrote(db.Model(&a).Updates(m), &a, m)
			},
		},
		{
			ID: "M04", Name: "Updates, itself", Code: `db.Updates(&Account{ID: 1, Age: 9})`, prepare: one(),
			Expect: expect(u.with("Age", 9).with("Name", "one")),
			write:  func(db *gorm.DB) outcome { a := account{ID: 1, Age: 9}; return wrote(db.Updates(&a), &a) },
		},
		{
			ID: "M04", Name: "Select and Omit", Code: `db.Model(&a).Select("*").Omit("created_at", "id").Updates(Account{Age: 9})`, prepare: one(),
			Expect: expect(u.with("Age", 9).with("Name", "")),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Select("*").Omit("created_at", "id").Updates(account{Age: 9}), &a)
			},
		},
		{
			ID: "M05", Name: "Updates, DTO", Code: `db.Model(&a).Updates(NameDTO{Name: "d"})`, prepare: one(),
			Expect: expect(u.with("Name", "d")),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Updates(nameDTO{Name: "d"}), &a) },
		},
		{
			ID: "M06", Name: "Model by value", Code: `db.Model(a).Update("age", 8)`, prepare: one(), modes: []mode{skipTransaction},
			Expect: expect(u.with("Age", 8)),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(a).Update("age", 8), &a) },
		},
		{
			ID: "M06", Name: "Updates by value", Code: `db.Updates(Account{ID: 1, Age: 9})`, prepare: one(),
			Expect: expect(u.with("Age", 9)),
			write:  func(db *gorm.DB) outcome { return wrote(db.Updates(account{ID: 1, Age: 9})) },
		},
		{
			ID: "M07", Name: "nothing to set", Code: `db.Model(&a).Updates(Account{})`, prepare: one(),
			Expect: none("nothing is executed"),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Updates(account{}), &a) },
		},
		{
			ID: "M08", Name: "row is missing", Code: `db.Model(&a).Update("age", 8)`,
			Expect: none("no row"),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("age", 8), &a) },
		},
		{
			ID: "M08", Name: "condition holds", Code: `db.Model(&a).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Where("age = ?", 7).Update("age", 8), &a)
			},
		},
		{
			ID: "M08", Name: "condition fails", Code: `db.Model(&a).Where("age = ?", 1).Update("age", 8)`, prepare: two(),
			Expect: none("no row"),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Where("age = ?", 1).Update("age", 8), &a)
			},
		},
		{
			ID: "M08", Name: "condition with an OR inside", Code: `db.Model(&a).Where("age = ? OR age = ?", 7, 8).Update("age", 8)`, prepare: two(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Where("age = ? OR age = ?", 7, 8).Update("age", 8), &a)
			},
		},
		{
			ID: "M08", Name: "Or", Code: `db.Model(&a).Where("age = ?", 1).Or("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: expect(u), // GORM puts the key behind the conditions, in parentheses
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Where("age = ?", 1).Or("age = ?", 7).Update("age", 8), &a)
			},
		},
		{
			// GORM puts no parentheses around this one: it is "age = 7 or name = 'x' AND id = 1".
			ID: "M08", Name: "OR behind a line break", Code: `db.Model(&a).Where("age = ?\nor name = ?", 7, "x").Update("age", 8)`, prepare: two(),
			Expect: expect(u, updated("account", "2").with("Age", 8)).anyOrder(),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Where("age = ?\nor name = ?", 7, "x").Update("age", 8), &a)
			},
		},
		{
			ID: "M09", Name: "UpdateColumn", Code: `db.Model(&p).UpdateColumn("name", "x")`, prepare: []any{&paper{ID: id(1), Name: "p"}},
			Expect: expect(updated("paper", id(1).String()).changed("name")),
			write: func(db *gorm.DB) outcome {
				p := paper{ID: id(1)}
				return wrote(db.Model(&p).UpdateColumn("name", "x"), &p)
			},
		},
		{
			ID: "M09", Name: "UpdateColumns", Code: `db.Model(&a).UpdateColumns(map[string]any{"age": 8})`, prepare: one(),
			Expect: expect(u.changed("age")),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).UpdateColumns(map[string]any{"age": 8}), &a)
			},
		},
		{
			ID: "M09", Name: "SkipHooks", Code: `db.Session(&gorm.Session{SkipHooks: true}).Model(&a).Update("age", 8)`, prepare: one(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Session(&gorm.Session{SkipHooks: true}).Model(&a).Update("age", 8), &a)
			},
		},
		{
			ID: "M09", Name: "with an update time", Code: `db.Model(&p).Update("name", "x")`, prepare: []any{&paper{ID: id(1), Name: "p"}},
			Expect: expect(updated("paper", id(1).String()).changed("name,updated_at")),
			write:  func(db *gorm.DB) outcome { p := paper{ID: id(1)}; return wrote(db.Model(&p).Update("name", "x"), &p) },
		},
		{
			ID: "M15", Name: "key changes", Code: `db.Model(&a).Update("id", 9)`, prepare: two(), modes: []mode{skipTransaction},
			Expect: expect(updated("account", "9").header(gormoutbox.HeaderPreviousAggregateID, "1")),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("id", 9), &a) },
		},
		{
			ID: "M15", Name: "part of a composite key changes", Code: `db.Model(&s).Update("no", "z")`, prepare: []any{&seat{Tenant: 1, No: "a"}, &seat{Tenant: 1, No: "b"}},
			Expect: expect(updated("seat", "1|z").header(gormoutbox.HeaderPreviousAggregateID, "1|a")),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "a"}
				return wrote(db.Model(&s).Update("no", "z"), &s)
			},
		},
		{
			ID: "M15", Name: "key changes, found by a condition", Code: `db.Model(&Account{}).Where("name = ?", "one").Update("id", 9)`, prepare: two(),
			Expect: expect(updated("account", "9").header(gormoutbox.HeaderPreviousAggregateID, "1")),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("name = ?", "one").Update("id", 9), &a)
			},
		},
		{
			ID: "M15", Name: "key changes to another's", Code: `db.Model(&a).Update("id", 2)`, prepare: two(),
			Expect: fails("the database: duplicate key"),
			write:  func(db *gorm.DB) outcome { a := ofOne(); return wrote(db.Model(&a).Update("id", 2), &a) },
		},
		{
			ID: "M15", Name: "key changes in many", Code: `db.Model(&Seat{}).Where("tenant = ?", 1).Update("tenant", 2)`, prepare: []any{&seat{Tenant: 1, No: "a"}, &seat{Tenant: 1, No: "b"}},
			Expect: refused("old and new keys of several rows can't be told apart"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(&seat{}).Where("tenant = ?", 1).Update("tenant", 2)) },
		},
		{
			ID: "M15", Name: "key stays", Code: `db.Model(&a).Updates(map[string]any{"id": 1, "age": 8})`, prepare: one(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Updates(map[string]any{"id": 1, "age": 8}), &a)
			},
		},
		{
			ID: "M16", Name: "map and serializer", Code: "db.Model(&a).Updates(map[string]any{\"tags\": `[\"x\"]`})", prepare: one(),
			Expect: expect(u.with("Tags", []any{"x"})),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Updates(map[string]any{"tags": `["x"]`}), &a)
			},
		},
		{
			ID: "M18", Name: "version matches", Code: `db.Model(&v).Updates(map[string]any{"name": "n"})`, prepare: []any{&versioned{ID: 1, Version: 1}},
			Expect: expect(updated("versioned", "1").with("Version", 2).changed("name,version")),
			write: func(db *gorm.DB) outcome {
				v := versioned{ID: 1, Version: 1}
				return wrote(db.Model(&v).Updates(map[string]any{"name": "n"}), &v)
			},
		},
		{
			ID: "M18", Name: "version is stale", Code: `db.Model(&v).Updates(map[string]any{"name": "n"})`, prepare: []any{&versioned{ID: 1, Version: 2}},
			Expect: none("no row"),
			write: func(db *gorm.DB) outcome {
				v := versioned{ID: 1, Version: 1}
				return wrote(db.Model(&v).Updates(map[string]any{"name": "n"}), &v)
			},
		},
		{
			ID: "M21", Name: "own SET clause", Code: `db.Model(&a).Clauses(clause.Set{{Column: clause.Column{Name: "age"}, Value: 8}}).Where("name = ?", "two").Updates(Account{Age: 8})`, prepare: two(),
			// With a SET clause of the user GORM adds no key.
			Expect: expect(updated("account", "2").with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Clauses(clause.Set{{Column: clause.Column{Name: "age"}, Value: 8}}).Where("name = ?", "two").Updates(account{Age: 8}), &a)
			},
		},
		{
			ID: "M22", Name: "AfterCreate updates the row", Code: `db.Create(&Ticket{No: "t", State: "raw"})`,
			Expect: expect(created("ticket", "t").with("State", "raw"), updated("ticket", "t").with("State", "cooked")),
			write:  func(db *gorm.DB) outcome { k := ticket{No: "t", State: "raw"}; return wrote(db.Create(&k), &k) },
		},
		{
			ID: "M23", Name: "embedded and written only", Code: `db.Model(&s).Updates(map[string]any{"home_city": "x", "home_zip": "z", "hidden": "i"})`, prepare: []any{&site{ID: 1, Hidden: "h"}},
			Expect: expect(updated("site", "1").changed("hidden,home_city")),
			write: func(db *gorm.DB) outcome {
				s := site{ID: 1}
				return wrote(db.Model(&s).Updates(map[string]any{"home_city": "x", "home_zip": "z", "hidden": "i"}), &s)
			},
		},
		{
			ID: "M23", Name: "pointer to null", Code: `db.Model(&s).Update("nick", nil)`, prepare: []any{&site{ID: 1, Nick: &nick}},
			Expect: expect(updated("site", "1").with("Nick", nil)),
			write: func(db *gorm.DB) outcome {
				s := site{ID: 1, Nick: &nick}
				return wrote(db.Model(&s).Update("nick", nil), &s)
			},
		},
		{
			ID: "M23", Name: "reserved words", Code: `db.Model(&r).Updates(map[string]any{"order": "p", "select": 3})`, prepare: []any{&reserved{Key: 1, Order: "o"}},
			Expect: expect(updated("reserved", "1").with("Order", "p").changed("order,select")),
			write: func(db *gorm.DB) outcome {
				r := reserved{Key: 1}
				return wrote(db.Model(&r).Updates(map[string]any{"order": "p", "select": 3}), &r)
			},
		},
		{
			ID: "M23", Name: "generics with the key", Code: `gorm.G[Account](db).Where("id = ?", 1).Updates(ctx, Account{Age: 8})`, prepare: two(),
			Expect: expect(u.with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				rows, err := gorm.G[account](db).Where("id = ?", 1).Updates(ctx, account{Age: 8})
				return outcome{rows: int64(rows), err: err}
			},
		},
	}
}
