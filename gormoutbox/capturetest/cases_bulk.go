package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// bulkUpdateCases are updates of rows that only the database knows.
func bulkUpdateCases() []Case {
	ctx := context.Background()
	u, v := updated("account", "1"), updated("account", "2")
	both := expect(u.with("Age", 8), v.with("Age", 8)).anyOrder()
	counted := func(rows int, err error) outcome { return outcome{rows: int64(rows), err: err} }
	seats := []any{&seat{Tenant: 1, No: "a"}, &seat{Tenant: 1, No: "b"}, &seat{Tenant: 2, No: "a"}}
	const noReturning = "the database: MariaDB has no UPDATE … RETURNING"
	return []Case{
		{
			ID: "M10", Name: "Where", Code: `db.Model(&Account{}).Where("age = ?", 7).Update("age", 8)`, prepare: two(), modes: []mode{skipTransaction, prepared, inSavepoint},
			Expect: both,
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age = ?", 7).Update("age", 8), &a)
			},
		},
		{
			ID: "M10", Name: "Where, by value", Code: `db.Model(Account{}).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both,
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(account{}).Where("age = ?", 7).Update("age", 8)) },
		},
		{
			ID: "M10", Name: "Where, no row", Code: `db.Model(&Account{}).Where("age = ?", 1).Update("age", 8)`, prepare: two(),
			Expect: none("no row"),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age = ?", 1).Update("age", 8), &a)
			},
		},
		{
			ID: "M10", Name: "Where, Not and Or", Code: `db.Model(&Account{}).Not("name = ?", "x").Where("age = ?", 1).Or("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Not("name = ?", "x").Where("age = ?", 1).Or("age = ?", 7).Update("age", 8), &a)
			},
		},
		{
			ID: "M10", Name: "Where with a struct", Code: `db.Where(&Account{Name: "two"}).Updates(&Account{Age: 8})`, prepare: two(),
			Expect: expect(v.with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := account{Age: 8}
				return wrote(db.Where(&account{Name: "two"}).Updates(&a), &a)
			},
		},
		{
			ID: "M10", Name: "Where, expression", Code: `db.Model(&Account{}).Where("age > ?", 1).Update("age", gorm.Expr("age + id"))`, prepare: two(),
			Expect: expect(u.with("Age", 8), v.with("Age", 9)).anyOrder(),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age > ?", 1).Update("age", gorm.Expr("age + id")), &a)
			},
		},
		{
			ID: "M10", Name: "Where, softly deleted ones stay", Code: `db.Model(&Paper{}).Where("name <> ?", "").Update("name", "x")`,
			prepare: []any{&paper{ID: id(1), Name: "p"}, &paper{ID: id(2), Name: "q", DeletedAt: gorm.DeletedAt{Time: clock(), Valid: true}}},
			Expect:  expect(updated("paper", id(1).String())),
			write: func(db *gorm.DB) outcome {
				var p paper
				return wrote(db.Model(&p).Where("name <> ?", "").Update("name", "x"), &p)
			},
		},
		{
			ID: "M10", Name: "some rows have the value already", Code: `db.Model(&Account{}).Where("age > ?", 1).Update("age", 8)`, prepare: []any{&account{ID: 1, Age: 7}, &account{ID: 2, Age: 8}},
			Expect: both.except(expect(u), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age > ?", 1).Update("age", 8), &a)
			},
		},
		{
			ID: "M11", Name: "Where, Returning", Code: `db.Model(&all).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both.except(fails(noReturning), MariaDB),
			write: func(db *gorm.DB) outcome {
				var all []account
				return wrote(db.Model(&all).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8), &all)
			},
		},
		{
			ID: "M11", Name: "Where, Returning some columns", Code: `db.Model(&all).Clauses(clause.Returning{Columns: []clause.Column{{Name: "name"}}}).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both.except(fails(noReturning), MariaDB),
			write: func(db *gorm.DB) outcome {
				var all []account
				return wrote(db.Model(&all).Clauses(clause.Returning{Columns: []clause.Column{{Name: "name"}}}).Where("age = ?", 7).Update("age", 8), &all)
			},
		},
		{
			ID: "M12", Name: "Returning into one", Code: `db.Model(&a).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both.except(fails(noReturning), MariaDB),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8), &a)
			},
		},
		{
			ID: "M12", Name: "key and Returning", Code: `db.Model(&a).Clauses(clause.Returning{}).Update("age", 8)`, prepare: two(),
			Expect: expect(u).except(fails(noReturning), MariaDB),
			write: func(db *gorm.DB) outcome {
				a := ofOne()
				return wrote(db.Model(&a).Clauses(clause.Returning{}).Update("age", 8), &a)
			},
		},
		{
			ID: "M13", Name: "slice", Code: `db.Model(&[]Account{{ID: 2}, {ID: 1}}).Update("age", 8)`, prepare: two(), modes: []mode{skipTransaction},
			Expect: expect(v, u),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 2}, {ID: 1}}
				return wrote(db.Model(&all).Update("age", 8), &all)
			},
		},
		{
			ID: "M13", Name: "slice, twice the same", Code: `db.Model(&[]Account{{ID: 1}, {ID: 1}}).Update("age", 8)`, prepare: two(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {ID: 1}}
				return wrote(db.Model(&all).Update("age", 8), &all)
			},
		},
		{
			ID: "M13", Name: "slice, one is missing", Code: `db.Model(&[]Account{{ID: 1}, {ID: 3}}).Update("age", 8)`, prepare: two(),
			Expect: expect(u),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {ID: 3}}
				return wrote(db.Model(&all).Update("age", 8), &all)
			},
		},
		{
			ID: "M13", Name: "slice, the last without key", Code: `db.Model(&[]Account{{ID: 1}, {}}).Where("age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both, // GORM drops the IN list
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {}}
				return wrote(db.Model(&all).Where("age = ?", 7).Update("age", 8), &all)
			},
		},
		{
			ID: "M13", Name: "slice with conditions", Code: `db.Model(&[]Account{{ID: 1}, {ID: 2}}).Where("name = ?", "two").Update("age", 8)`, prepare: two(),
			Expect: expect(v),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {ID: 2}}
				return wrote(db.Model(&all).Where("name = ?", "two").Update("age", 8), &all)
			},
		},
		{
			ID: "M14", Name: "part of a composite key", Code: `db.Model(&Seat{Tenant: 1}).Update("name", "n")`, prepare: seats,
			Expect: expect(updated("seat", "1|a"), updated("seat", "1|b")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1}
				return wrote(db.Model(&s).Update("name", "n"), &s)
			},
		},
		{
			ID: "M19", Name: "Table", Code: `db.Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8})`, prepare: one(),
			Expect: refused("the write bypasses the model of the table"),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8}))
			},
		},
		{
			ID: "M19", Name: "Table with an alias", Code: `db.Table("accounts AS a").Where("id = 1").Updates(map[string]any{"age": 8})`, prepare: one(),
			Expect: refused("the write bypasses the model of the table"),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Table("accounts AS a").Where("id = 1").Updates(map[string]any{"age": 8}))
			},
		},
		{
			ID: "M19", Name: "DTO on the table", Code: `db.Model(&AccountDTO{ID: 1}).Update("name", "x")`, prepare: one(),
			Expect: refused("the write bypasses the model of the table"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(&accountDTO{ID: 1}).Update("name", "x")) },
		},
		{
			ID: "M20", Name: "no WHERE", Code: `db.Model(&Account{}).Update("age", 8)`, prepare: one(),
			Expect: fails("GORM: WHERE conditions required"),
			write:  func(db *gorm.DB) outcome { var a account; return wrote(db.Model(&a).Update("age", 8), &a) },
		},
		{
			ID: "M20", Name: "AllowGlobalUpdate", Code: `db.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(&Account{}).Update("age", 8)`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(&a).Update("age", 8), &a)
			},
		},
		{
			ID: "M21", Name: "generics, Update", Code: `gorm.G[Account](db).Where("age = ?", 7).Update(ctx, "age", 8)`, prepare: two(), modes: []mode{skipTransaction},
			Expect: both,
			write: func(db *gorm.DB) outcome {
				return counted(gorm.G[account](db).Where("age = ?", 7).Update(ctx, "age", 8))
			},
		},
		{
			ID: "M21", Name: "generics, Updates", Code: `gorm.G[Account](db).Where("age = ?", 7).Updates(ctx, Account{Age: 8})`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				return counted(gorm.G[account](db).Where("age = ?", 7).Updates(ctx, account{Age: 8}))
			},
		},
		{
			ID: "M21", Name: "generics, Set", Code: `gorm.G[Account](db).Where("age = ?", 7).Set(clause.Assignment{Column: clause.Column{Name: "age"}, Value: 8}).Update(ctx)`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				return counted(gorm.G[account](db).Where("age = ?", 7).Set(clause.Assignment{Column: clause.Column{Name: "age"}, Value: 8}).Update(ctx))
			},
		},
		{
			// The SQL has run by then, and a user who ignores the error in his own transaction keeps row and event.
			ID: "M21", Name: "generics, a model with hooks", Code: `gorm.G[Ticket](db).Where("state = ?", "x").Update(ctx, "state", "y")`, prepare: []any{&ticket{No: "t", State: "x"}},
			Expect: fails("GORM: hooks need a pointer, and generics have none").keeping(updated("ticket", "t")),
			write: func(db *gorm.DB) outcome {
				return counted(gorm.G[ticket](db).Where("state = ?", "x").Update(ctx, "state", "y"))
			},
		},
		{
			ID: "M10", Name: "Where, subquery of another table", Code: `db.Model(&Pet{}).Where("person_id IN (?)", db.Model(&Person{}).Select("id").Where("name = ?", "p")).Update("name", "x")`, prepare: family(),
			Expect: expect(updated("pet", "1").with("Name", "x"), updated("pet", "2").with("Name", "x")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Model(&pet{}).Where("person_id IN (?)", db.Model(&person{}).Select("id").Where("name = ?", "p")).Update("name", "x"))
			},
		},
		{
			ID: "M10", Name: "Where, named arguments", Code: `db.Model(&Account{}).Where("age = @age OR name = @name", map[string]any{"age": 7, "name": "x"}).Update("age", 8)`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age = @age OR name = @name", map[string]any{"age": 7, "name": "x"}).Update("age", 8), &a)
			},
		},
		{
			ID: "M24", Name: "another table in FROM", Code: `db.Model(&Pet{}).Clauses(clause.From{Tables: people}).Where("people.id = pets.person_id AND people.name = ?", "p").Update("name", "x")`, prepare: family(),
			Expect: expect(updated("pet", "1").with("Name", "x"), updated("pet", "2").with("Name", "x")).anyOrder().
				except(refused("rows of a join can't be read before"), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				people := clause.From{Tables: []clause.Table{{Name: "people"}}}
				return wrote(db.Model(&pet{}).Clauses(people).Where("people.id = pets.person_id AND people.name = ?", "p").Update("name", "x"))
			},
		},
		{
			ID: "M24", Name: "Order and Limit", Code: `db.Model(&Account{}).Where("age = ?", 7).Order("id DESC").Limit(1).Update("age", 8)`, prepare: two(),
			Expect: both.except(expect(v), MySQL, MariaDB), // others leave the limit out
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Model(&a).Where("age = ?", 7).Order("id DESC").Limit(1).Update("age", 8), &a)
			},
		},
		{
			ID: "M24", Name: "alias", Code: `db.Table("accounts AS a").Model(&Account{}).Where("a.age = ?", 7).Update("age", 8)`, prepare: two(),
			Expect: both,
			write: func(db *gorm.DB) outcome {
				return wrote(db.Table("accounts AS a").Model(&account{}).Where("a.age = ?", 7).Update("age", 8))
			},
		},
		{
			ID: "M25", Name: "before=values, several columns", Code: `db.Model(&Ledger{ID: 1}).Updates(map[string]any{"name": "new", "amount": 7})`, prepare: []any{&ledger{ID: 1, Name: "old", Amount: 7}},
			Expect: expect(updated("ledger", "1").changed("name").header(gormoutbox.HeaderPrevious, `{"name":"old"}`)),
			write: func(db *gorm.DB) outcome {
				l := ledger{ID: 1}
				return wrote(db.Model(&l).Updates(map[string]any{"name": "new", "amount": 7}), &l)
			},
		},
		{
			ID: "M25", Name: "before=values, nothing changes", Code: `db.Model(&Ledger{ID: 1}).Update("amount", 7)`, prepare: []any{&ledger{ID: 1, Amount: 7}},
			Expect: none("no column changed"),
			write:  func(db *gorm.DB) outcome { l := ledger{ID: 1}; return wrote(db.Model(&l).Update("amount", 7), &l) },
		},
		{
			ID: "M25", Name: "before=values, Where", Code: `db.Model(&Ledger{}).Where("id < ?", 9).Update("amount", 8)`, prepare: []any{&ledger{ID: 1, Amount: 7}, &ledger{ID: 2, Amount: 8}},
			Expect: expect(updated("ledger", "1").changed("amount").header(gormoutbox.HeaderPrevious, `{"amount":7}`)),
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(&ledger{}).Where("id < ?", 9).Update("amount", 8)) },
		},
		{
			ID: "M25", Name: "before=values, Save", Code: `db.Save(&Ledger{ID: 1, Name: "new", Amount: 7, Note: "secret"})`, prepare: []any{&ledger{ID: 1, Name: "old", Amount: 7}},
			Expect: expect(updated("ledger", "1").changed("name").header(gormoutbox.HeaderPrevious, `{"name":"old"}`)),
			write: func(db *gorm.DB) outcome {
				l := ledger{ID: 1, Name: "new", Amount: 7, Note: "secret"}
				return wrote(db.Save(&l), &l)
			},
		},
	}
}
