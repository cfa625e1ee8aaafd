package gormoutbox_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

func TestSavePaths(t *testing.T) {
	t.Parallel()
	const u, x = "account.updated", "account.upserted"
	one := seed(&Account{ID: 1, Name: "one", Age: 7})
	load := func(g *gorm.DB) *Account {
		var a Account
		g.First(&a, 1)
		return &a
	}
	id := uuid.New()
	runPaths(t, []path{
		{id: "S01 Save, key zero", want: ev(c2), run: func(g *gorm.DB) error { return g.Save(&Account{Name: "a"}).Error }},
		{id: "S02 Save, there", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			a := load(g)
			a.Age = 8
			return g.Save(a).Error
		}},
		// MySQL counts no row, and GORM inserts with ON DUPLICATE KEY UPDATE.
		{id: "S03 Save, unchanged", prepare: one, want: ev(u), on: map[string][]string{"mysql": none, "mariadb": none}, run: func(g *gorm.DB) error {
			return g.Save(load(g)).Error
		}},
		{
			id: "S03 Save, unchanged, another unique index", prepare: seed(&Member{ID: 1, Email: "e"}), want: ev("member.updated"),
			on:  map[string][]string{"mysql": none, "mariadb": none},
			run: func(g *gorm.DB) error { return g.Save(&Member{ID: 1, Email: "e"}).Error },
		},
		{id: "S04 Save, missing", want: ev("order.upserted"), run: func(g *gorm.DB) error { return g.Save(&Order{ID: id, Status: "s"}).Error }},
		{
			id: "S04 Save, missing, another unique index", want: ev("member.upserted"),
			run: func(g *gorm.DB) error { return g.Save(&Member{ID: 5, Email: "e"}).Error },
		},
		{id: "S05 Select, Save", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			return g.Select("Age").Save(&Account{ID: 1, Name: "dirty", Age: 9}).Error
		}},
		{id: "F01 FirstOrCreate, found", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Where("name = ?", "one").FirstOrCreate(&Account{}).Error }},
		{id: "F02 FirstOrCreate, missing", want: ev(c2), run: func(g *gorm.DB) error { return g.Where(Account{Name: "f"}).FirstOrCreate(&Account{}).Error }},
		// GORM updates by the conditions of the query, with the key of what it found.
		{id: "F03 FirstOrCreate, Assign, found", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			return g.Where("name = ?", "one").Assign(Account{Age: 44}).FirstOrCreate(&Account{}).Error
		}},
		{id: "F04 FirstOrInit", want: none, run: func(g *gorm.DB) error { return g.Where(Account{Name: "f"}).FirstOrInit(&Account{}).Error }},
	})
}

func TestUpdatePaths(t *testing.T) {
	t.Parallel()
	const u = "account.updated"
	ctx := context.Background()
	one := seed(&Account{ID: 1, Name: "one", Age: 7})
	two := seed(&Account{ID: 1, Name: "one", Age: 7}, &Account{ID: 2, Name: "two", Age: 7})
	a := func() *Account { return &Account{ID: 1, Name: "one", Age: 7} }
	unchanged := map[string][]string{"mysql": none, "mariadb": none}
	runPaths(t, []path{
		{id: "M01 Update, dirty", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			dirty := a()
			dirty.Name = "dirty"
			return g.Model(dirty).Update("age", 8).Error
		}},
		{id: "M02 same value", prepare: one, want: ev(u), on: unchanged, run: func(g *gorm.DB) error { return g.Model(a()).Update("age", 7).Error }},
		{id: "M03 expression", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Update("age", gorm.Expr("age + ?", 1)).Error }},
		{id: "M04 Updates struct", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Updates(Account{Age: 9}).Error }},
		{id: "M04 Updates itself", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Updates(&Account{ID: 1, Age: 9}).Error }},
		{id: "M05 Updates DTO", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Updates(AccountDTO{Name: "d"}).Error }},
		{id: "M06 Model by value", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(*a()).Update("age", 8).Error }},
		{id: "M06 Updates by value", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Updates(Account{ID: 1, Age: 9}).Error }},
		{id: "M07 nothing to set", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Model(a()).Updates(Account{}).Error }},
		{id: "M08 missing", want: none, run: func(g *gorm.DB) error { return g.Model(a()).Update("age", 8).Error }},
		{id: "M08 condition holds", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Where("age = ?", 7).Update("age", 8).Error }},
		{id: "M08 condition fails", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Model(a()).Where("age = ?", 1).Update("age", 8).Error }},
		{id: "M08 condition with an OR inside", prepare: two, want: ev(u), run: func(g *gorm.DB) error {
			return g.Model(a()).Where("age = ? OR age = ?", 7, 8).Update("age", 8).Error
		}},
		{id: "M08 Or", prepare: two, want: ev(u), run: func(g *gorm.DB) error {
			return g.Model(a()).Where("age = ?", 1).Or("age = ?", 7).Update("age", 8).Error
		}},
		// GORM puts no parentheses around this one: it is "age = 1 or name = 'two' AND id = 1".
		{id: "M08 OR behind a line break", prepare: two, want: none, run: func(g *gorm.DB) error {
			return g.Model(a()).Where("age = ?\nor name = ?", 1, "two").Update("age", 8).Error
		}},
		{id: "M09 UpdateColumn", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).UpdateColumn("age", 8).Error }},
		{id: "M09 UpdateColumns", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).UpdateColumns(map[string]any{"age": 8}).Error }},
		{id: "M09 SkipHooks", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			return g.Session(&gorm.Session{SkipHooks: true}).Model(a()).Update("age", 8).Error
		}},
		{id: "M10 Where", prepare: two, want: ev(u, u), run: func(g *gorm.DB) error { return g.Model(&Account{}).Where("age = ?", 7).Update("age", 8).Error }},
		{id: "M11 Where, Returning", prepare: two, want: ev(u, u), on: map[string][]string{"mariadb": fails}, run: func(g *gorm.DB) error {
			return g.Model(&[]Account{}).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8).Error
		}},
		{id: "M12 Where, Returning into one", prepare: two, want: ev(u, u), on: map[string][]string{"mariadb": fails}, run: func(g *gorm.DB) error {
			return g.Model(&Account{}).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8).Error
		}},
		{id: "M12 key, Returning", prepare: two, want: ev(u), on: map[string][]string{"mariadb": fails}, run: func(g *gorm.DB) error {
			return g.Model(a()).Clauses(clause.Returning{}).Update("age", 8).Error
		}},
		{id: "M13 slice", prepare: two, want: ev(u, u), run: func(g *gorm.DB) error { return g.Model(&[]Account{{ID: 1}, {ID: 2}}).Update("age", 8).Error }},
		{id: "M13 slice, twice the same", prepare: two, want: ev(u), run: func(g *gorm.DB) error { return g.Model(&[]Account{{ID: 1}, {ID: 1}}).Update("age", 8).Error }},
		{id: "M13 slice, one missing", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(&[]Account{{ID: 1}, {ID: 2}}).Update("age", 8).Error }},
		{id: "M13 slice, last without key", prepare: two, want: fails, run: func(g *gorm.DB) error { return g.Model(&[]Account{{ID: 1}, {}}).Update("age", 8).Error }},
		{id: "M13 slice with conditions", prepare: two, want: ev(u), run: func(g *gorm.DB) error {
			return g.Model(&[]Account{{ID: 1}, {ID: 2}}).Where("name = ?", "two").Update("age", 8).Error
		}},
		{id: "M14 part of a key", prepare: seed(&Seat{Tenant: 1, No: "a"}, &Seat{Tenant: 1, No: "b"}), want: ev("seat.updated", "seat.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Seat{Tenant: 1}).Update("name", "n").Error
		}},
		{id: "M15 key changes", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Update("id", 9).Error }},
		{id: "M15 key stays", prepare: one, want: ev(u), run: func(g *gorm.DB) error { return g.Model(a()).Updates(map[string]any{"id": 1, "age": 8}).Error }},
		{id: "M16 map and serializer", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			return g.Model(a()).Updates(map[string]any{"tags": `["x"]`}).Error
		}},
		{id: "M18 version matches", prepare: seed(&Versioned{ID: 1, Version: 1}), want: ev("versioned.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Versioned{ID: 1, Version: 1}).Updates(map[string]any{"name": "n"}).Error
		}},
		{id: "M18 version is stale", prepare: seed(&Versioned{ID: 1, Version: 2}), want: none, run: func(g *gorm.DB) error {
			return g.Model(&Versioned{ID: 1, Version: 1}).Updates(map[string]any{"name": "n"}).Error
		}},
		{id: "M19 Table", prepare: one, want: refused, run: func(g *gorm.DB) error {
			return g.Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8}).Error
		}},
		{id: "M19 Table with an alias", prepare: one, want: refused, run: func(g *gorm.DB) error {
			return g.Table("accounts AS a").Where("id = 1").Updates(map[string]any{"age": 8}).Error
		}},
		{id: "M20 no WHERE", prepare: one, want: fails, run: func(g *gorm.DB) error { return g.Model(&Account{}).Update("age", 8).Error }},
		{id: "M20 AllowGlobalUpdate", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			return g.Session(&gorm.Session{AllowGlobalUpdate: true}).Model(&Account{}).Update("age", 8).Error
		}},
		{id: "M21 generics", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			_, err := gorm.G[Account](g).Where("id = ?", 1).Update(ctx, "age", 8)
			return err
		}},
		{id: "M21 generics Set", prepare: one, want: ev(u), run: func(g *gorm.DB) error {
			_, err := gorm.G[Account](g).Where("id = ?", 1).Set(clause.Assignment{Column: clause.Column{Name: "age"}, Value: 8}).Update(ctx)
			return err
		}},
		// With a SET clause of the user GORM adds no key: this would change the row with age 7 and name two.
		{id: "M21 own SET clause", prepare: two, want: ev(u), run: func(g *gorm.DB) error {
			return g.Model(a()).Clauses(clause.Set{{Column: clause.Column{Name: "age"}, Value: 8}}).Where("name = ?", "two").Updates(Account{Age: 8}).Error
		}},
		{id: "embedded", prepare: seed(&Site{ID: 1, Hidden: "h"}), want: ev("site.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Site{ID: 1}).Updates(map[string]any{"home_city": "x", "home_zip": "z", "hidden": "i"}).Error
		}},
		{id: "pointer to null", prepare: seed(&Site{ID: 1, Nick: new("n")}), want: ev("site.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Site{ID: 1}).Update("nick", nil).Error
		}},
	})
}
