package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// manyCases are the writes of gorm.Association, and deletes with associations.
func manyCases() []Case {
	ctx := context.Background()
	pets := func(db *gorm.DB, p *person) *gorm.Association { return db.Model(p).Association("Pets") }
	byID := func() *person { return &person{ID: 1, Name: "p"} }
	freed := func(id string) Event { return updated("pet", id).with("PersonID", nil).changed("person_id") }
	withPets := []any{&person{ID: 3, Name: "r"}, &pet{ID: 7, Name: "a", PersonID: new(uint(3))}, &pet{ID: 8, Name: "b", PersonID: new(uint(3))}}
	op := func(db *gorm.DB, a clause.Association) outcome {
		rows, err := gorm.G[person](db).Where("id = ?", 1).Set(a).Update(ctx)
		return outcome{rows: int64(rows), err: err}
	}
	return []Case{
		{
			ID: "A04", Name: "Append has-many", Code: `db.Model(&p).Association("Pets").Append(&Pet{Name: "new"})`, prepare: family(), modes: []mode{skipTransaction},
			Expect: expect(created("pet", "#1").with("PersonID", 1)),
			write: func(db *gorm.DB) outcome {
				p, child := byID(), &pet{Name: "new"}
				return did(pets(db, p).Append(child), p, child)
			},
		},
		{
			ID: "A04", Name: "Append another's child", Code: `db.Model(&p2).Association("Pets").Append(&Pet{ID: 1})`, prepare: family(),
			Expect: expect(upserted("pet", "1").with("Name", "rex").with("PersonID", 2)),
			write: func(db *gorm.DB) outcome {
				p, child := &person{ID: 2}, &pet{ID: 1}
				return did(pets(db, p).Append(child), p, child)
			},
		},
		{
			ID: "A05", Name: "Replace has-many by one of them", Code: `db.Model(&p).Association("Pets").Replace(&Pet{ID: 2})`, prepare: family(), modes: []mode{skipTransaction},
			Expect: expect(freed("1")),
			write: func(db *gorm.DB) outcome {
				p, child := byID(), &pet{ID: 2, Name: "leo"}
				return did(pets(db, p).Replace(child), p, child)
			},
		},
		{
			ID: "A05", Name: "Replace has-many by a new one", Code: `db.Model(&p).Association("Pets").Replace(&Pet{Name: "new"})`, prepare: family(),
			Expect: expect(created("pet", "#1"), freed("1"), freed("2")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				p, child := byID(), &pet{Name: "new"}
				return did(pets(db, p).Replace(child), p, child)
			},
		},
		{
			ID: "A06", Name: "Delete has-many", Code: `db.Model(&p).Association("Pets").Delete(&Pet{ID: 1})`, prepare: family(),
			Expect: expect(freed("1")),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(pets(db, p).Delete(&pet{ID: 1}), p) },
		},
		{
			ID: "A06", Name: "Delete has-many, Unscoped", Code: `db.Model(&p).Association("Pets").Unscoped().Delete(&Pet{ID: 1})`, prepare: family(),
			Expect: expect(deleted("pet", "1").with("Name", "rex")),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(pets(db, p).Unscoped().Delete(&pet{ID: 1}), p) },
		},
		{
			ID: "A06", Name: "Clear has-many", Code: `db.Model(&p).Association("Pets").Clear()`, prepare: family(),
			Expect: expect(freed("1"), freed("2")).anyOrder(),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(pets(db, p).Clear(), p) },
		},
		{
			ID: "A06", Name: "Clear has-many, Unscoped", Code: `db.Model(&p).Association("Pets").Unscoped().Clear()`, prepare: family(),
			Expect: expect(deleted("pet", "1"), deleted("pet", "2")).anyOrder(),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(pets(db, p).Unscoped().Clear(), p) },
		},
		{
			ID: "A06", Name: "Replace has-one", Code: `db.Model(&p).Association("Badge").Replace(&Badge{Text: "new"})`, prepare: family(),
			Expect: expect(created("badge", "#1"), updated("badge", "1").with("PersonID", nil)),
			write: func(db *gorm.DB) outcome {
				p, b := byID(), &badge{Text: "new"}
				return did(db.Model(p).Association("Badge").Replace(b), p, b)
			},
		},
		{
			ID: "A07", Name: "many-to-many Append, join model not annotated", Code: `db.Model(&p).Association("Langs").Append(&Lang{Code: "de"})`, prepare: family(),
			Expect: none("the join rows have no model"),
			write: func(db *gorm.DB) outcome {
				p, l := byID(), &lang{Code: "de"}
				return did(db.Model(p).Association("Langs").Append(l), p, l)
			},
		},
		{
			ID: "A07", Name: "many-to-many Append", Code: `db.Model(&p).Association("Clubs").Append(&Club{ID: 1}, &Club{ID: 2})`, prepare: family(), modes: []mode{skipTransaction},
			Expect: expect(created("enrolment", "1|2")),
			write: func(db *gorm.DB) outcome {
				p := byID()
				return did(db.Model(p).Association("Clubs").Append(&club{ID: 1, Name: "dirty"}, &club{ID: 2}), p)
			},
		},
		{
			ID: "A07", Name: "many-to-many Replace", Code: `db.Model(&p).Association("Clubs").Replace(&Club{ID: 2})`, prepare: family(),
			Expect: expect(created("enrolment", "1|2"), deleted("enrolment", "1|1")),
			write: func(db *gorm.DB) outcome {
				p := byID()
				return did(db.Model(p).Association("Clubs").Replace(&club{ID: 2, Name: "y"}), p)
			},
		},
		{
			ID: "A07", Name: "many-to-many Delete", Code: `db.Model(&p).Association("Clubs").Delete(&Club{ID: 1})`, prepare: family(),
			Expect: expect(deleted("enrolment", "1|1")),
			write: func(db *gorm.DB) outcome {
				p := byID()
				return did(db.Model(p).Association("Clubs").Delete(&club{ID: 1}), p)
			},
		},
		{
			ID: "A07", Name: "many-to-many Clear", Code: `db.Model(&p).Association("Clubs").Clear()`, prepare: family(),
			Expect: expect(deleted("enrolment", "1|1")),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(db.Model(p).Association("Clubs").Clear(), p) },
		},
		{
			ID: "A08", Name: "belongs-to Replace", Code: `db.Model(&p2).Association("Company").Replace(&Company{ID: 1})`, prepare: family(),
			Expect: expect(updated("person", "2").with("CompanyID", 1)),
			write: func(db *gorm.DB) outcome {
				p, c := &person{ID: 2, Name: "q"}, &company{ID: 1}
				return did(db.Model(p).Association("Company").Replace(c), p, c)
			},
		},
		{
			ID: "A08", Name: "belongs-to Replace by a new one", Code: `db.Model(&p).Association("Company").Replace(&Company{Name: "new"})`, prepare: family(),
			Expect: expect(created("company", "#1"), updated("person", "1").with("CompanyID", "#1")),
			write: func(db *gorm.DB) outcome {
				p, c := byID(), &company{Name: "new"}
				return did(db.Model(p).Association("Company").Replace(c), p, c)
			},
		},
		{
			ID: "A08", Name: "belongs-to Clear", Code: `db.Model(&p).Association("Company").Clear()`, prepare: family(),
			Expect: expect(updated("person", "1").with("CompanyID", nil)),
			write:  func(db *gorm.DB) outcome { p := byID(); return did(db.Model(p).Association("Company").Clear(), p) },
		},
		{
			ID: "A09", Name: "Append a map", Code: `db.Model(&p).Association("Pets").Append(map[string]any{"name": "new"})`, prepare: family(),
			Expect: expect(created("pet", "#1").with("Name", "new").with("PersonID", 1)),
			write: func(db *gorm.DB) outcome {
				p, m := byID(), map[string]any{"name": "new"}
				return did(pets(db, p).Append(m), m, p.ID)
			},
		},
		{
			ID: "A10", Name: "Select, Delete", Code: `db.Select("Pets").Delete(&p)`, prepare: withPets, modes: []mode{skipTransaction},
			Expect: expect(deleted("pet", "7"), deleted("pet", "8"), deleted("person", "3")),
			write:  func(db *gorm.DB) outcome { p := person{ID: 3}; return wrote(db.Select("Pets").Delete(&p), &p) },
		},
		{
			ID: "A10", Name: "Select many-to-many, Delete", Code: `db.Select("Clubs").Delete(&p)`,
			prepare: []any{&club{ID: 1}, &person{ID: 3}, &enrolment{PersonID: 3, ClubID: 1}},
			Expect:  expect(deleted("enrolment", "3|1"), deleted("person", "3")),
			write:   func(db *gorm.DB) outcome { p := person{ID: 3}; return wrote(db.Select("Clubs").Delete(&p), &p) },
		},
		{
			ID: "A11", Name: "generics, create", Code: `gorm.G[Person](db).Where("id = ?", 1).Set(clause.Association{Association: "Pets", Type: clause.OpCreate, Set: set}).Update(ctx)`, prepare: family(),
			Expect: expect(created("pet", "#1").with("Name", "new").with("PersonID", 1)),
			write: func(db *gorm.DB) outcome {
				return op(db, clause.Association{Association: "Pets", Type: clause.OpCreate, Set: []clause.Assignment{{Column: clause.Column{Name: "name"}, Value: "new"}}})
			},
		},
		{
			ID: "A11", Name: "generics, update", Code: `gorm.G[Person](db).Where("id = ?", 1).Set(clause.Association{Association: "Pets", Type: clause.OpUpdate, Set: set}).Update(ctx)`, prepare: family(),
			Expect: expect(updated("pet", "1").with("Name", "new"), updated("pet", "2").with("Name", "new")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return op(db, clause.Association{Association: "Pets", Type: clause.OpUpdate, Set: []clause.Assignment{{Column: clause.Column{Name: "name"}, Value: "new"}}})
			},
		},
		{
			ID: "A11", Name: "generics, unlink", Code: `gorm.G[Person](db).Where("id = ?", 1).Set(clause.Association{Association: "Pets", Type: clause.OpUnlink}).Update(ctx)`, prepare: family(),
			Expect: expect(freed("1"), freed("2")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return op(db, clause.Association{Association: "Pets", Type: clause.OpUnlink})
			},
		},
		{
			ID: "A11", Name: "generics, delete", Code: `gorm.G[Person](db).Where("id = ?", 1).Set(clause.Association{Association: "Pets", Type: clause.OpDelete}).Update(ctx)`, prepare: family(),
			Expect: expect(deleted("pet", "1"), deleted("pet", "2")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return op(db, clause.Association{Association: "Pets", Type: clause.OpDelete})
			},
		},
	}
}
