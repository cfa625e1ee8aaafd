package capturetest

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// family is a person with everything, and one with nothing.
func family() []any {
	return []any{
		&company{ID: 1, Name: "c"}, &club{ID: 1, Name: "x"}, &club{ID: 2, Name: "y"}, &lang{Code: "de"},
		&person{ID: 1, Name: "p", CompanyID: new(uint(1))}, &person{ID: 2, Name: "q"},
		&badge{ID: 1, Text: "b", PersonID: new(uint(1))},
		&pet{ID: 1, Name: "rex", PersonID: new(uint(1))}, &pet{ID: 2, Name: "leo", PersonID: new(uint(1))},
		&toy{ID: id(1), Name: "ball", OwnerID: 1, OwnerType: "people"}, &enrolment{PersonID: 1, ClubID: 1},
	}
}

// preloaded is the person of the family with what belongs to it.
func preloaded(db *gorm.DB) *person {
	var p person
	_ = db.Preload(clause.Associations).First(&p, 1).Error // a save of an empty person shows the failure
	return &p
}

// associationCases are saves of values that hold others.
func associationCases() []Case {
	p1 := updated("person", "1")
	return []Case{
		{
			ID: "A01", Name: "belongs-to", Code: `db.Create(&Person{Name: "p", Company: &Company{Name: "c"}})`, modes: []mode{skipTransaction},
			Expect: expect(created("company", "#1"), created("person", "#1")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Company: &company{Name: "c"}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "belongs-to that is there", Code: `db.Create(&Person{Name: "p", Company: &Company{ID: 1, Name: "dirty"}})`, prepare: []any{&company{ID: 1, Name: "c"}},
			Expect: expect(created("person", "#1")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Company: &company{ID: 1, Name: "dirty"}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "has-one", Code: `db.Create(&Person{Name: "p", Badge: &Badge{Text: "b"}})`,
			Expect: expect(created("person", "#1"), created("badge", "#1").with("PersonID", "#1")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Badge: &badge{Text: "b"}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "has-many", Code: `db.Create(&Person{Name: "p", Pets: []Pet{{Name: "a"}, {Name: "b"}}})`,
			Expect: expect(created("person", "#1"), created("pet", "#1"), created("pet", "#2")).
				except(refused(increment).keeping(created("person", "#1")), Increment),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Pets: []pet{{Name: "a"}, {Name: "b"}}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "many-to-many, join model annotated", Code: `db.Create(&Person{Name: "p", Clubs: []Club{{ID: 1}, {ID: 2}}})`, prepare: []any{&club{ID: 1, Name: "x"}},
			Expect: expect(created("person", "#1"), created("club", "2"), created("enrolment", "#1|1").with("Level", 1), created("enrolment", "#1|2")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Clubs: []club{{ID: 1}, {ID: 2}}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "everything", Code: `db.Create(&Person{Name: "p", Company: &c, Badge: &b, Pets: pets, Langs: langs, Clubs: clubs})`,
			Expect: expect(created("company", "#1"), created("person", "#1"), created("badge", "#1"), created("pet", "#1"), created("club", "5"), created("enrolment", "#1|5")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Company: &company{Name: "c"}, Badge: &badge{}, Pets: []pet{{Name: "a"}}, Langs: []lang{{Code: "fr"}}, Clubs: []club{{ID: 5}}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A01", Name: "two parents", Code: `db.Create(&[]Person{{Name: "p", Pets: []Pet{{Name: "a"}}}, {Name: "q", Pets: []Pet{{Name: "b"}}}})`,
			Expect: expect(created("person", "#1"), created("person", "#2"), created("pet", "#1").with("PersonID", "#1"), created("pet", "#2").with("PersonID", "#2")).
				except(refused(increment), Increment),
			write: func(db *gorm.DB) outcome {
				all := []person{{Name: "p", Pets: []pet{{Name: "a"}}}, {Name: "q", Pets: []pet{{Name: "b"}}}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "A02", Name: "Save, children unchanged in the database", Code: `db.Save(&p)`, prepare: family(),
			Expect: expect(p1.with("Name", "new")),
			write: func(db *gorm.DB) outcome {
				p := preloaded(db)
				p.Name, p.Pets[0].Name, p.Company.Name, p.Badge.Text = "new", "dirty", "dirty", "dirty"
				return wrote(db.Save(p), p)
			},
		},
		{
			ID: "A02", Name: "Update, children unchanged in the database", Code: `db.Model(&p).Update("name", "new")`, prepare: family(), modes: []mode{skipTransaction},
			Expect: expect(p1),
			write: func(db *gorm.DB) outcome {
				p := preloaded(db)
				p.Pets[0].Name = "dirty"
				return wrote(db.Model(p).Update("name", "new"), p)
			},
		},
		{
			ID: "A02", Name: "Updates, children unchanged in the database", Code: `db.Updates(&p)`, prepare: family(),
			Expect: expect(p1),
			write: func(db *gorm.DB) outcome {
				p := preloaded(db)
				p.Name, p.Pets[0].Name = "new", "dirty"
				return wrote(db.Updates(p), p)
			},
		},
		{
			ID: "A02", Name: "Save, an old and a new child", Code: `p.Pets = append(p.Pets, Pet{Name: "new"}); db.Save(&p)`, prepare: family(),
			Expect: expect(p1, created("pet", "#1").with("Name", "new")).except(refused(increment).keeping(p1), Increment),
			write: func(db *gorm.DB) outcome {
				p := preloaded(db)
				p.Name, p.Pets = "new", append(p.Pets, pet{Name: "new"})
				return wrote(db.Save(p), p)
			},
		},
		{
			ID: "A02", Name: "Save, another's child", Code: `db.Save(&Person{ID: 2, Name: "new", Pets: []Pet{{ID: 1, Name: "dirty"}}})`, prepare: family(),
			Expect: expect(updated("person", "2"), upserted("pet", "1").with("Name", "rex").with("PersonID", 2)),
			write: func(db *gorm.DB) outcome {
				p := person{ID: 2, Name: "new", Pets: []pet{{ID: 1, Name: "dirty"}}}
				return wrote(db.Save(&p), &p)
			},
		},
		{
			ID: "A03", Name: "FullSaveAssociations", Code: `db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&p)`, prepare: family(),
			Expect: expect(p1, upserted("pet", "1").with("Name", "x"), upserted("pet", "2").with("Name", "y")),
			write: func(db *gorm.DB) outcome {
				var p person
				if err := db.Preload("Pets").First(&p, 1).Error; err != nil {
					return did(err)
				}
				p.Name, p.Pets[0].Name, p.Pets[1].Name = "new", "x", "y"
				return wrote(db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&p), &p)
			},
		},
		{
			ID: "A03", Name: "FullSaveAssociations, one child unchanged", Code: `db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&p)`, prepare: family(),
			Expect: expect(p1, upserted("pet", "1").with("Name", "x"), upserted("pet", "2")).
				except(expect(p1, upserted("pet", "1").with("Name", "x")), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				var p person
				if err := db.Preload("Pets").First(&p, 1).Error; err != nil {
					return did(err)
				}
				p.Name, p.Pets[0].Name = "new", "x"
				return wrote(db.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&p), &p)
			},
		},
		{
			ID: "A12", Name: "polymorphic", Code: `db.Create(&Person{Name: "p", Toys: []Toy{{ID: id1, Name: "a"}, {ID: id2, Name: "b"}}})`,
			Expect: expect(created("person", "#1"), upserted("toy", id(1).String()).with("OwnerID", "#1").with("OwnerType", "people"), upserted("toy", id(2).String())),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Toys: []toy{{ID: id(1), Name: "a"}, {ID: id(2), Name: "b"}}}
				return wrote(db.Create(&p), &p)
			},
		},
		{
			ID: "A12", Name: "polymorphic, unchanged in the database", Code: `db.Save(&Person{ID: 1, Name: "new", Toys: []Toy{{ID: id1, Name: "dirty"}}})`, prepare: family(),
			Expect: expect(p1),
			write: func(db *gorm.DB) outcome {
				p := person{ID: 1, Name: "new", Toys: []toy{{ID: id(1), Name: "dirty"}}}
				return wrote(db.Save(&p), &p)
			},
		},
	}
}
