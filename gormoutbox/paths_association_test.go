package gormoutbox_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Associations are upserts: new rows of annotated models are events, rows that
// are there and stay as they are aren't, and what can't be told is refused.
func TestAssociationPaths(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const person, pet, toy, company = "person.created", "pet.created", "toy.upserted", "company.created"
	family := func(g *gorm.DB) {
		seed(&Company{ID: 1, Name: "c"}, &Person{ID: 1, Name: "p", CompanyID: new(uint(1)), Pets: []Pet{{ID: 1, Name: "rex"}, {ID: 2, Name: "leo"}}},
			&Person{ID: 2, Name: "q"}, &Lang{Code: "de"})(g)
	}
	load := func(g *gorm.DB) *Person {
		var p Person
		g.Preload(clause.Associations).First(&p, 1)
		return &p
	}
	byID := func() *Person { return &Person{ID: 1, Name: "p"} }
	runPaths(t, []path{
		{id: "A01 has-many and many-to-many", want: ev(person, pet, pet), run: func(g *gorm.DB) error {
			return g.Create(&Person{Name: "p", Pets: []Pet{{Name: "a"}, {Name: "b"}}, Langs: []Lang{{Code: "fr"}}}).Error
		}},
		{id: "A01 belongs-to, key of the database", want: ev(company, person), run: func(g *gorm.DB) error {
			return g.Create(&Person{Name: "p", Company: &Company{Name: "c"}}).Error
		}},
		{id: "A01 belongs-to that is there", prepare: family, want: ev(person), run: func(g *gorm.DB) error {
			return g.Create(&Person{Name: "p", Company: &Company{ID: 1, Name: "dirty"}}).Error
		}},
		{id: "A01 two parents", want: ev(person, person, pet, pet), run: func(g *gorm.DB) error {
			return g.Create(&[]Person{{Name: "p", Pets: []Pet{{Name: "a"}}}, {Name: "q", Pets: []Pet{{Name: "b"}}}}).Error
		}},
		{id: "A02 Save with loaded children", prepare: family, want: ev("person.updated"), run: func(g *gorm.DB) error {
			p := load(g)
			p.Name, p.Pets[0].Name, p.Company.Name = "new", "dirty", "dirty"
			return g.Save(p).Error
		}},
		{id: "A02 Update with loaded children", prepare: family, want: ev("person.updated"), run: func(g *gorm.DB) error {
			p := load(g)
			p.Pets[0].Name = "dirty"
			return g.Model(p).Update("name", "new").Error
		}},
		{id: "A02 Save with an old and a new child", prepare: family, want: ev("person.updated", pet), run: func(g *gorm.DB) error {
			p := load(g)
			p.Name, p.Pets = "new", append(p.Pets, Pet{Name: "new"})
			return g.Save(p).Error
		}},
		{id: "A02 Save with another's child", prepare: family, want: ev("person.updated", "pet.upserted"), run: func(g *gorm.DB) error {
			return g.Save(&Person{ID: 2, Name: "new", Pets: []Pet{{ID: 1, Name: "dirty"}}}).Error
		}},
		{id: "A03 FullSaveAssociations", prepare: family, want: ev("person.updated", "pet.upserted", "pet.upserted"), run: func(g *gorm.DB) error {
			var p Person
			g.Preload("Pets").First(&p, 1)
			p.Name, p.Pets[0].Name, p.Pets[1].Name = "new", "x", "y"
			return g.Session(&gorm.Session{FullSaveAssociations: true}).Updates(&p).Error
		}},
		{id: "A04 Append has-many", prepare: family, want: ev(pet), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Pets").Append(&Pet{Name: "new"})
		}},
		{id: "A05 Replace has-many", prepare: family, want: ev("pet.updated"), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Pets").Replace(&Pet{ID: 2, Name: "leo"})
		}},
		{id: "A06 Delete has-many", prepare: family, want: ev("pet.updated"), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Pets").Delete(&Pet{ID: 1})
		}},
		{id: "A06 Clear has-many", prepare: family, want: ev("pet.updated", "pet.updated"), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Pets").Clear()
		}},
		{id: "A06 Clear has-many, unscoped", prepare: family, want: ev("pet.deleted", "pet.deleted"), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Pets").Unscoped().Clear()
		}},
		{id: "A07 many-to-many Append", prepare: family, want: none, run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Langs").Append(&Lang{Code: "de"})
		}},
		{id: "A07 many-to-many Clear", prepare: family, want: none, run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Langs").Clear()
		}},
		{id: "A08 belongs-to Replace", prepare: family, want: ev("person.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Person{ID: 2, Name: "q"}).Association("Company").Replace(&Company{ID: 1})
		}},
		{id: "A08 belongs-to Clear", prepare: family, want: ev("person.updated"), run: func(g *gorm.DB) error {
			return g.Model(byID()).Association("Company").Clear()
		}},
		{id: "A10 Select, Delete", prepare: family, want: ev("pet.deleted", "pet.deleted", "person.deleted"), run: func(g *gorm.DB) error {
			return g.Select("Pets").Delete(byID()).Error
		}},
		{id: "A10 Select many-to-many, Delete", prepare: seed(&Person{ID: 3, Langs: []Lang{{Code: "x"}}}), want: ev("person.deleted"), run: func(g *gorm.DB) error {
			return g.Select("Langs").Delete(&Person{ID: 3}).Error
		}},
		{id: "A11 generics", prepare: family, want: ev(pet), run: func(g *gorm.DB) error {
			_, err := gorm.G[Person](g).Where("id = ?", 1).Set(clause.Association{
				Association: "Pets", Type: clause.OpCreate, Set: []clause.Assignment{{Column: clause.Column{Name: "name"}, Value: "new"}},
			}).Update(ctx)
			return err
		}},
		{id: "A12 polymorphic, keys of the client", want: ev(person, toy, toy), run: func(g *gorm.DB) error {
			return g.Create(&Person{Name: "p", Toys: []Toy{{ID: uuid.New(), Name: "a"}, {ID: uuid.New(), Name: "b"}}}).Error
		}},
	})
}
