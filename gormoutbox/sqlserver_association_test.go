package gormoutbox_test

import (
	"context"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Associations are upserts: MERGE where the children have keys, and INSERT where they have none. Both at once is refused.
func msAssociationPaths() []msPath {
	ctx := context.Background()
	person := &Person{ID: 1, Name: "of the row"}
	company := &Company{ID: 1, Name: "of the row"}
	rex, leo := &Pet{ID: 1, Name: "of the row", PersonID: new(uint(1))}, &Pet{ID: 2, Name: "of the row", PersonID: new(uint(1))}
	strayRex, strayLeo := &Pet{ID: 1, Name: "of the row"}, &Pet{ID: 2, Name: "of the row"}
	fullRex := &Pet{ID: 1, Name: "changed", PersonID: new(uint(1))}
	ball := &Toy{ID: msID, Name: "of the row", OwnerID: 1, OwnerType: "people"}
	lang := msStep{token: "MERGE langs", affected: 1}
	joined := msStep{token: "MERGE person_langs", affected: 1}
	unjoined := msStep{token: "DELETE person_langs", affected: 1}
	createdPerson := []msStep{msInsert(person), msBack(person), msCreated(person)}
	updatedPerson := []msStep{msUpdate(person, 1), msBack(person), msUpdated(person)}
	join := func(parts ...[]msStep) []msStep {
		var all []msStep
		for _, part := range parts {
			all = append(all, part...)
		}
		return msTx(all...)
	}
	// What is saved with each save of its owner, and found as it is.
	sameCompany := []msStep{msHold(company, company), msMerge(company)}
	samePets := msMerged(rex, []any{rex, leo}, []any{rex, leo}, []any{rex, leo})
	mine := func() *Person { return &Person{ID: 1, Name: "memory"} }
	loaded := func() *Person {
		return &Person{ID: 1, Name: "memory", Pets: []Pet{{ID: 1, Name: "memory"}, {ID: 2, Name: "memory"}}}
	}
	pets := func(fn func(*gorm.Association) error) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome {
			p := mine()
			return msOutcome{value: p, err: fn(g.Model(p).Association("Pets"))}
		}
	}
	return []msPath{
		{
			id:    "A01 has-many and many-to-many",
			steps: join(createdPerson, []msStep{msInsert(rex, leo), msBack(rex, leo), msCreated(rex, leo), lang, joined}),
			run: func(g *gorm.DB) msOutcome {
				p := Person{Name: "memory", Pets: []Pet{{Name: "memory"}, {Name: "memory"}}, Langs: []Lang{{Code: "fr"}}}
				return msDid(g.Create(&p), p)
			},
		},
		{
			id: "A01 belongs-to, key of the database", steps: join([]msStep{msInsert(company), msBack(company), msCreated(company)}, createdPerson),
			run: func(g *gorm.DB) msOutcome {
				p := Person{Name: "memory", Company: &Company{Name: "memory"}}
				return msDid(g.Create(&p), p)
			},
		},
		{id: "A01 belongs-to that is there", steps: join(sameCompany, createdPerson), run: func(g *gorm.DB) msOutcome {
			p := Person{Name: "memory", Company: &Company{ID: 1, Name: "memory"}}
			return msDid(g.Create(&p), p)
		}},
		{
			id: "A01 belongs-to that is missing", refused: true, steps: msUndone(msHold(company)),
			run: func(g *gorm.DB) msOutcome {
				return msDid(g.Create(&Person{Name: "memory", Company: &Company{ID: 1}}), nil)
			},
		},
		{id: "A02 Save with loaded children", steps: join(updatedPerson, samePets), run: func(g *gorm.DB) msOutcome {
			p := loaded()
			return msDid(g.Save(p), p)
		}},
		{id: "A02 Update with loaded children", steps: join(updatedPerson, samePets), run: func(g *gorm.DB) msOutcome {
			p := loaded()
			return msDid(g.Model(p).Update("name", "memory"), p)
		}},
		{
			id: "A02 Save with another's child", steps: join(updatedPerson, msMerged(rex, []any{strayRex}, []any{rex}, []any{rex}, msUpserted(rex))),
			run: func(g *gorm.DB) msOutcome {
				p := Person{ID: 1, Name: "memory", Pets: []Pet{{ID: 1, Name: "memory"}}}
				return msDid(g.Save(&p), p)
			},
		},
		{
			id:    "A03 FullSaveAssociations",
			steps: join(updatedPerson, msMerged(rex, []any{rex, leo}, []any{fullRex, leo}, []any{fullRex, leo}, msUpserted(fullRex))),
			run: func(g *gorm.DB) msOutcome {
				p := loaded()
				return msDid(g.Session(&gorm.Session{FullSaveAssociations: true}).Updates(p), p)
			},
		},
		{
			id: "A04 Append has-many", steps: msTx(msInsert(leo), msBack(leo), msCreated(leo)),
			run: pets(func(a *gorm.Association) error { return a.Append(&Pet{Name: "memory"}) }),
		},
		{
			id:    "A05 Replace has-many",
			steps: slices.Concat(msTx(msMerged(leo, []any{leo}, []any{leo}, []any{leo})...), msTx(msHold(rex, rex), msUpdate(rex, 1), msBack(strayRex), msUpdated(strayRex))),
			run:   pets(func(a *gorm.Association) error { return a.Replace(&Pet{ID: 2, Name: "memory"}) }),
		},
		{
			id: "A06 Delete has-many", steps: msTx(msHold(rex, rex), msUpdate(rex, 1), msBack(strayRex), msUpdated(strayRex)),
			run: pets(func(a *gorm.Association) error { return a.Delete(&Pet{ID: 1}) }),
		},
		{
			id: "A06 Clear has-many", steps: msTx(msHold(rex, rex, leo), msUpdate(rex, 2), msBack(strayRex, strayLeo), msUpdated(strayRex, strayLeo)),
			run: pets(func(a *gorm.Association) error { return a.Clear() }),
		},
		{
			id: "A06 Clear has-many, unscoped", steps: msTx(msHold(rex, rex, leo), msDelete(rex, 2), msDeleted(rex, leo)),
			run: pets(func(a *gorm.Association) error { return a.Unscoped().Clear() }),
		},
		{id: "A07 many-to-many Append", steps: msTx(lang, joined), run: func(g *gorm.DB) msOutcome {
			p := mine()
			return msOutcome{value: p, err: g.Model(p).Association("Langs").Append(&Lang{Code: "de"})}
		}},
		{id: "A07 many-to-many Clear", steps: msTx(unjoined), run: func(g *gorm.DB) msOutcome {
			p := mine()
			return msOutcome{value: p, err: g.Model(p).Association("Langs").Clear()}
		}},
		{id: "A08 belongs-to Replace", steps: join(sameCompany, updatedPerson), run: func(g *gorm.DB) msOutcome {
			p := mine()
			return msOutcome{value: p, err: g.Model(p).Association("Company").Replace(&Company{ID: 1})}
		}},
		{id: "A08 belongs-to Clear", steps: msTx(updatedPerson...), run: func(g *gorm.DB) msOutcome {
			p := mine()
			return msOutcome{value: p, err: g.Model(p).Association("Company").Clear()}
		}},
		{
			id: "A09 Append of a map", steps: slices.Concat(msTx(msInsert(leo), msBack(leo), msCreated(leo)), msTx()),
			run: pets(func(a *gorm.Association) error { return a.Append(map[string]any{"name": "memory"}) }),
		},
		{
			id: "A10 Select, Delete", steps: msTx(msHold(rex, rex, leo), msDelete(rex, 2), msDeleted(rex, leo), msHold(person, person), msDelete(person, 1), msDeleted(person)),
			run: func(g *gorm.DB) msOutcome {
				p := mine()
				return msDid(g.Select("Pets").Delete(p), p)
			},
		},
		{
			id: "A11 generics", steps: slices.Concat([]msStep{msRead(person, person)}, msTx(msInsert(leo), msBack(leo), msCreated(leo)), msTx()),
			run: func(g *gorm.DB) msOutcome {
				n, err := gorm.G[Person](g).Where("id = ?", 1).Set(clause.Association{
					Association: "Pets", Type: clause.OpCreate, Set: []clause.Assignment{{Column: clause.Column{Name: "name"}, Value: "memory"}},
				}).Update(ctx)
				return msOutcome{rows: int64(n), err: err}
			},
		},
		{
			id: "A12 polymorphic, keys of the client", steps: join(createdPerson, msMerged(ball, nil, []any{ball}, []any{ball}, msUpserted(ball))),
			run: func(g *gorm.DB) msOutcome {
				p := Person{Name: "memory", Toys: []Toy{{ID: msID, Name: "memory"}}}
				return msDid(g.Create(&p), p)
			},
		},
	}
}
