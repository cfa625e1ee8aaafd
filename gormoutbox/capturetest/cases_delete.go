package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// gone is a row that was deleted softly.
func gone() []any {
	return []any{&paper{ID: id(1), Name: "p", DeletedAt: gorm.DeletedAt{Time: clock(), Valid: true}}}
}

func deleteCases() []Case {
	ctx := context.Background()
	d, e := deleted("account", "1"), deleted("account", "2")
	p := id(1).String()
	papers := []any{&paper{ID: id(1), Name: "p"}, &paper{ID: id(2), Name: "q"}}
	seats := []any{&seat{Tenant: 1, No: "a"}, &seat{Tenant: 1, No: "b"}, &seat{Tenant: 2, No: "a"}}
	return []Case{
		{
			ID: "D01", Name: "one", Code: `db.Delete(&a)`, prepare: two(), modes: []mode{skipTransaction, prepared, inSavepoint},
			Expect: expect(d.with("Name", "one")),
			write:  func(db *gorm.DB) outcome { a := account{ID: 1, Name: "dirty"}; return wrote(db.Delete(&a), &a) },
		},
		{
			ID: "D01", Name: "by value", Code: `db.Delete(a)`, prepare: two(),
			Expect: expect(d),
			write:  func(db *gorm.DB) outcome { return wrote(db.Delete(account{ID: 1})) },
		},
		{
			ID: "D01", Name: "condition fails", Code: `db.Where("name = ?", "x").Delete(&a)`, prepare: two(),
			Expect: none("no row"),
			write:  func(db *gorm.DB) outcome { a := account{ID: 1}; return wrote(db.Where("name = ?", "x").Delete(&a), &a) },
		},
		{
			ID: "D02", Name: "by id", Code: `db.Delete(&Account{}, 1)`, prepare: two(), modes: []mode{skipTransaction},
			Expect: expect(d.with("Name", "one")),
			write:  func(db *gorm.DB) outcome { var a account; return wrote(db.Delete(&a, 1), &a) },
		},
		{
			ID: "D02", Name: "by ids", Code: `db.Delete(&Account{}, []int{1, 2})`, prepare: two(),
			Expect: expect(d, e).anyOrder(),
			write:  func(db *gorm.DB) outcome { var a account; return wrote(db.Delete(&a, []int{1, 2}), &a) },
		},
		{
			ID: "D02", Name: "by ids into a slice", Code: `db.Delete(&[]Account{}, []int{1, 2})`, prepare: two(),
			Expect: expect(d, e).anyOrder(),
			write:  func(db *gorm.DB) outcome { var all []account; return wrote(db.Delete(&all, []int{1, 2}), &all) },
		},
		{
			ID: "D03", Name: "slice", Code: `db.Delete(&[]Account{{ID: 2}, {ID: 1}})`, prepare: two(),
			Expect: expect(e, d),
			write:  func(db *gorm.DB) outcome { all := []account{{ID: 2}, {ID: 1}}; return wrote(db.Delete(&all), &all) },
		},
		{
			ID: "D03", Name: "slice, one is missing", Code: `db.Delete(&[]Account{{ID: 2}, {ID: 3}})`, prepare: two(),
			Expect: expect(e),
			write:  func(db *gorm.DB) outcome { all := []account{{ID: 2}, {ID: 3}}; return wrote(db.Delete(&all), &all) },
		},
		{
			ID: "D04", Name: "row is missing", Code: `db.Delete(&a)`,
			Expect: none("no row"),
			write:  func(db *gorm.DB) outcome { a := account{ID: 1}; return wrote(db.Delete(&a), &a) },
		},
		{
			ID: "D05", Name: "Where", Code: `db.Where("age = ?", 7).Delete(&Account{})`, prepare: two(), modes: []mode{skipTransaction, prepared, inSavepoint},
			Expect: expect(d, e).anyOrder(),
			write:  func(db *gorm.DB) outcome { var a account; return wrote(db.Where("age = ?", 7).Delete(&a), &a) },
		},
		{
			ID: "D05", Name: "Where and Or", Code: `db.Where("name = ?", "x").Or("name = ?", "two").Delete(&Account{})`, prepare: two(),
			Expect: expect(e),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where("name = ?", "x").Or("name = ?", "two").Delete(&a), &a)
			},
		},
		{
			ID: "D05", Name: "no WHERE", Code: `db.Delete(&Account{})`, prepare: one(),
			Expect: fails("GORM: WHERE conditions required"),
			write:  func(db *gorm.DB) outcome { var a account; return wrote(db.Delete(&a), &a) },
		},
		{
			ID: "D05", Name: "AllowGlobalUpdate", Code: `db.Session(&gorm.Session{AllowGlobalUpdate: true}).Delete(&Account{})`, prepare: two(),
			Expect: expect(d, e).anyOrder(),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Session(&gorm.Session{AllowGlobalUpdate: true}).Delete(&a), &a)
			},
		},
		{
			ID: "D06", Name: "key in the Model", Code: `db.Model(&Account{ID: 1}).Delete(&Account{})`, prepare: two(),
			Expect: expect(d),
			write: func(db *gorm.DB) outcome {
				a, b := account{ID: 1}, account{}
				return wrote(db.Model(&a).Delete(&b), &a, &b)
			},
		},
		{
			ID: "D06", Name: "other keys in Model and value", Code: `db.Model(&Account{ID: 1}).Delete(&Account{ID: 2})`, prepare: two(),
			Expect: none("no row has both keys"),
			write: func(db *gorm.DB) outcome {
				a, b := account{ID: 1}, account{ID: 2}
				return wrote(db.Model(&a).Delete(&b), &a, &b)
			},
		},
		{
			ID: "D07", Name: "soft", Code: `db.Delete(&p)`, prepare: papers, modes: []mode{skipTransaction},
			Expect: expect(softDeleted(p).with("Name", "p")),
			write:  func(db *gorm.DB) outcome { v := paper{ID: id(1), Name: "dirty"}; return wrote(db.Delete(&v), &v) },
		},
		{
			ID: "D07", Name: "soft, by condition", Code: `db.Where("name <> ?", "").Delete(&Paper{})`, prepare: papers,
			Expect: expect(softDeleted(p), softDeleted(id(2).String())).anyOrder(),
			write:  func(db *gorm.DB) outcome { var v paper; return wrote(db.Where("name <> ?", "").Delete(&v), &v) },
		},
		{
			ID: "D07", Name: "soft, slice", Code: `db.Delete(&[]Paper{{ID: id1}, {ID: id2}})`, prepare: papers,
			Expect: expect(softDeleted(p), softDeleted(id(2).String())),
			write: func(db *gorm.DB) outcome {
				all := []paper{{ID: id(1)}, {ID: id(2)}}
				return wrote(db.Delete(&all), &all)
			},
		},
		{
			ID: "D08", Name: "soft, twice", Code: `db.Delete(&p)`, prepare: gone(),
			Expect: none("no row"),
			write:  func(db *gorm.DB) outcome { v := paper{ID: id(1)}; return wrote(db.Delete(&v), &v) },
		},
		{
			ID: "D09", Name: "Unscoped", Code: `db.Unscoped().Delete(&p)`, prepare: papers,
			Expect: expect(deleted("paper", p)),
			write:  func(db *gorm.DB) outcome { v := paper{ID: id(1)}; return wrote(db.Unscoped().Delete(&v), &v) },
		},
		{
			ID: "D09", Name: "Unscoped, softly deleted before, by condition", Code: `db.Unscoped().Where("name = ?", "p").Delete(&Paper{})`, prepare: gone(),
			Expect: expect(deleted("paper", p)),
			write: func(db *gorm.DB) outcome {
				var v paper
				return wrote(db.Unscoped().Where("name = ?", "p").Delete(&v), &v)
			},
		},
		{
			ID: "D10", Name: "restore", Code: `db.Unscoped().Model(&p).Update("deleted_at", nil)`, prepare: gone(),
			Expect: expect(updated("paper", p).changed("deleted_at,updated_at")),
			write: func(db *gorm.DB) outcome {
				v := paper{ID: id(1)}
				return wrote(db.Unscoped().Model(&v).Update("deleted_at", nil), &v)
			},
		},
		{
			ID: "D10", Name: "update of a deleted row", Code: `db.Model(&p).Update("name", "x")`, prepare: gone(),
			Expect: none("no row"),
			write:  func(db *gorm.DB) outcome { v := paper{ID: id(1)}; return wrote(db.Model(&v).Update("name", "x"), &v) },
		},
		{
			ID: "D10", Name: "update to deleted", Code: `db.Model(&p).Update("deleted_at", time.Now())`, prepare: papers,
			Expect: expect(updated("paper", p)),
			write: func(db *gorm.DB) outcome {
				v := paper{ID: id(1)}
				return wrote(db.Model(&v).Update("deleted_at", clock()), &v)
			},
		},
		{
			ID: "D11", Name: "Returning", Code: `db.Clauses(clause.Returning{}).Where("age = ?", 7).Delete(&all)`, prepare: two(),
			Expect: expect(d, e).anyOrder(),
			write: func(db *gorm.DB) outcome {
				var all []account
				return wrote(db.Clauses(clause.Returning{}).Where("age = ?", 7).Delete(&all), &all)
			},
		},
		{
			ID: "D11", Name: "Returning into keys", Code: `db.Clauses(clause.Returning{Columns: []clause.Column{{Name: "name"}}}).Delete(&a)`, prepare: two(),
			Expect: expect(d),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.Returning{Columns: []clause.Column{{Name: "name"}}}).Delete(&a), &a)
			},
		},
		{
			ID: "D12", Name: "Table", Code: `db.Table("accounts").Where("id = 1").Delete(nil)`, prepare: one(),
			Expect: refused("the write bypasses the model of the table"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Table("accounts").Where("id = 1").Delete(nil)) },
		},
		{
			ID: "D12", Name: "DTO on the table", Code: `db.Delete(&AccountDTO{ID: 1})`, prepare: one(),
			Expect: refused("the write bypasses the model of the table"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Delete(&accountDTO{ID: 1})) },
		},
		{
			ID: "D13", Name: "composite key", Code: `db.Delete(&Seat{Tenant: 1, No: "b"})`, prepare: seats,
			Expect: expect(deleted("seat", "1|b")),
			write:  func(db *gorm.DB) outcome { s := seat{Tenant: 1, No: "b"}; return wrote(db.Delete(&s), &s) },
		},
		{
			ID: "D13", Name: "slice of composite keys", Code: `db.Delete(&[]Seat{{Tenant: 1, No: "a"}, {Tenant: 2, No: "a"}})`, prepare: seats,
			Expect: expect(deleted("seat", "1|a"), deleted("seat", "2|a")),
			write: func(db *gorm.DB) outcome {
				all := []seat{{Tenant: 1, No: "a"}, {Tenant: 2, No: "a"}}
				return wrote(db.Delete(&all), &all)
			},
		},
		{
			ID: "D13", Name: "part of a composite key", Code: `db.Delete(&Seat{Tenant: 1})`, prepare: seats,
			Expect: none("GORM compares the whole key, and no row has it"),
			write:  func(db *gorm.DB) outcome { s := seat{Tenant: 1}; return wrote(db.Delete(&s), &s) },
		},
		{
			ID: "D05", Name: "Order and Limit", Code: `db.Where("age = ?", 7).Order("id DESC").Limit(1).Delete(&Account{})`, prepare: two(),
			Expect: expect(d, e).anyOrder().except(expect(e), MySQL, MariaDB), // others leave the limit out
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where("age = ?", 7).Order("id DESC").Limit(1).Delete(&a), &a)
			},
		},
		{
			ID: "D05", Name: "subquery of another table", Code: `db.Where("person_id IN (?)", db.Model(&Person{}).Select("id").Where("name = ?", "p")).Delete(&Pet{})`, prepare: family(),
			Expect: expect(deleted("pet", "1"), deleted("pet", "2")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Where("person_id IN (?)", db.Model(&person{}).Select("id").Where("name = ?", "p")).Delete(&pet{}))
			},
		},
		{
			ID: "D15", Name: "generics", Code: `gorm.G[Account](db).Where("age = ?", 7).Delete(ctx)`, prepare: two(),
			Expect: expect(d, e).anyOrder(),
			write: func(db *gorm.DB) outcome {
				rows, err := gorm.G[account](db).Where("age = ?", 7).Delete(ctx)
				return outcome{rows: int64(rows), err: err}
			},
		},
		{
			ID: "D15", Name: "referenced row", Code: `db.Delete(&Company{ID: 1})`, prepare: family(),
			Expect: fails("the database: foreign key"),
			write:  func(db *gorm.DB) outcome { c := company{ID: 1}; return wrote(db.Delete(&c), &c) },
		},
	}
}
