package gormoutbox_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const c2 = "account.created"

func TestCreatePaths(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	id := uuid.MustParse("0190b2a0-0000-7000-8000-000000000001")
	runPaths(t, []path{
		{id: "C01 Create", want: ev(c2), run: func(g *gorm.DB) error { return g.Create(&Account{Name: "a"}).Error }},
		{id: "C01 Create with key", want: ev(c2), run: func(g *gorm.DB) error { return g.Create(&Account{ID: 7, Name: "a"}).Error }},
		{id: "C02 Create by value", want: ev("order.created"), run: func(g *gorm.DB) error { return g.Create(Order{ID: id}).Error }},
		// GORM itself would panic here, with the transaction open.
		{id: "C03 Create by value, key of the database", want: refused, run: func(g *gorm.DB) error { return g.Create(Account{Name: "a"}).Error }},
		{id: "C04 Create slice", want: ev(c2, c2), run: func(g *gorm.DB) error { return g.Create(&[]Account{{Name: "a"}, {Name: "b"}}).Error }},
		{id: "C04 Create slice, some keys", want: ev(c2, c2, c2), on: map[string][]string{"mysql": refused}, run: func(g *gorm.DB) error {
			return g.Create(&[]Account{{Name: "a"}, {ID: 9000, Name: "b"}, {Name: "c"}}).Error
		}},
		{id: "C05 Create slice by value", want: ev(c2, c2), run: func(g *gorm.DB) error { return g.Create([]Account{{Name: "a"}, {Name: "b"}}).Error }},
		{id: "C06 Create pointers", want: ev(c2, c2), run: func(g *gorm.DB) error { return g.Create([]*Account{{Name: "a"}, {Name: "b"}}).Error }},
		{id: "C06 Create pointers, one nil", want: fails, run: func(g *gorm.DB) error { return g.Create([]*Account{{Name: "a"}, nil}).Error }},
		{id: "C07 Create array", want: ev(c2, c2), run: func(g *gorm.DB) error { return g.Create(&[2]Account{{Name: "a"}, {Name: "b"}}).Error }},
		{id: "C08 Create empty", want: fails, run: func(g *gorm.DB) error { return g.Create(&[]Account{}).Error }},
		{id: "C09 Create anything", want: fails, run: func(g *gorm.DB) error { return g.Create([]any{&Account{}, &Order{}}).Error }},
		{id: "C10 Create map", want: ev(c2), run: func(g *gorm.DB) error { return g.Model(&Account{}).Create(map[string]any{"name": "a"}).Error }},
		{id: "C11 Create map pointer", want: ev(c2), run: func(g *gorm.DB) error { return g.Model(&Account{}).Create(&map[string]any{"name": "a"}).Error }},
		{id: "C12 Create maps", want: refused, on: map[string][]string{"mysql": ev(c2)}, run: func(g *gorm.DB) error { return g.Model(&Account{}).Create([]map[string]any{{"name": "a"}}).Error }},
		{id: "C13 Create maps pointer", want: ev(c2), run: func(g *gorm.DB) error { return g.Model(&Account{}).Create(&[]map[string]any{{"name": "a"}}).Error }},
		{id: "C14 Table, map", want: refused, run: func(g *gorm.DB) error { return g.Table("accounts").Create(map[string]any{"name": "a"}).Error }},
		{id: "C15 Select", want: ev(c2), run: func(g *gorm.DB) error { return g.Select("Name").Create(&Account{Name: "a", Age: 9}).Error }},
		{id: "C15 Select without the key that is set", want: ev(c2), on: map[string][]string{"mysql": refused}, run: func(g *gorm.DB) error { return g.Select("Name").Create(&Account{ID: 5, Name: "a"}).Error }},
		{id: "C16 Omit", want: ev(c2), run: func(g *gorm.DB) error { return g.Omit("Age").Create(&Account{Name: "a", Age: 9}).Error }},
		{id: "C17 Omit associations", want: ev("person.created"), run: func(g *gorm.DB) error {
			return g.Omit(clause.Associations).Create(&Person{Name: "a", Pets: []Pet{{Name: "p"}}}).Error
		}},
		{id: "C18 CreateInBatches", want: ev(c2, c2, c2), run: func(g *gorm.DB) error {
			return g.CreateInBatches(&[]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 2).Error
		}},
		{id: "C19 CreateBatchSize", want: ev(c2, c2, c2), run: func(g *gorm.DB) error {
			return g.Session(&gorm.Session{CreateBatchSize: 2}).Create(&[]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}}).Error
		}},
		{id: "C20 duplicate key", prepare: seed(&Account{ID: 5}), want: fails, run: func(g *gorm.DB) error { return g.Create(&Account{ID: 5}).Error }},
		{id: "C21 zero key of a client", want: refused, run: func(g *gorm.DB) error { return g.Create(&Order{}).Error }},
		{id: "C24 composite key", want: ev("seat.created"), run: func(g *gorm.DB) error { return g.Create(&Seat{Tenant: 1, No: "a"}).Error }},
		{id: "C24 composite key, partly zero", want: refused, run: func(g *gorm.DB) error { return g.Create(&Seat{No: "a"}).Error }},
		{id: "C26 embedded", want: ev("site.created"), run: func(g *gorm.DB) error {
			return g.Create(&Site{Home: Address{City: "x", Zip: "1"}, Hidden: "h", Ignored: "i"}).Error
		}},
		{id: "C27 serializer", want: ev(c2), run: func(g *gorm.DB) error { return g.Create(&Account{Tags: []string{"x"}}).Error }},
		{id: "C31 DTO on the table", want: refused, run: func(g *gorm.DB) error { return g.Create(&AccountDTO{Name: "a"}).Error }},
		{id: "C31 Table and DTO", want: refused, run: func(g *gorm.DB) error { return g.Table("accounts").Create(&AccountDTO{Name: "a"}).Error }},
		{id: "C31 Model and DTO", want: refused, run: func(g *gorm.DB) error { return g.Model(&Account{}).Create(&AccountDTO{Name: "a"}).Error }},
		{id: "C32 generics", want: ev(c2), run: func(g *gorm.DB) error { return gorm.G[Account](g).Create(ctx, &Account{Name: "a"}) }},
		{id: "C32 generics batches", want: ev(c2, c2, c2), run: func(g *gorm.DB) error {
			return gorm.G[Account](g).CreateInBatches(ctx, &[]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 2)
		}},
		{id: "C33 generics set", want: ev(c2), run: func(g *gorm.DB) error {
			return gorm.G[Account](g).Set(clause.Assignment{Column: clause.Column{Name: "name"}, Value: "a"}).Create(ctx)
		}},
		{id: "C34 DryRun", want: none, run: func(g *gorm.DB) error {
			return g.Session(&gorm.Session{DryRun: true}).Create(&Account{Name: "a"}).Error
		}},
		{id: "C34 ToSQL", want: none, run: func(g *gorm.DB) error {
			g.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&Account{Name: "a"}) })
			return nil
		}},
		{id: "Returning without the key", want: refused, on: map[string][]string{"mysql": ev(c2)}, run: func(g *gorm.DB) error {
			return g.Clauses(clause.Returning{Columns: []clause.Column{{Name: "score"}}}).Create(&Account{Name: "a"}).Error
		}},
		{id: "Returning all", want: ev(c2, c2), run: func(g *gorm.DB) error {
			return g.Clauses(clause.Returning{}).Create(&[]Account{{Name: "a"}, {Name: "b"}}).Error
		}},
	})
}

func TestUpsertPaths(t *testing.T) {
	t.Parallel()
	nothing := clause.OnConflict{DoNothing: true}
	status := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"status"})}
	const x = "account.upserted"
	mysqls := func(want []string) map[string][]string { return map[string][]string{"mysql": want, "mariadb": want} }
	three := seed(&Account{ID: 1, Name: "one", Status: "new", Age: 7})
	runPaths(t, []path{
		{id: "U01 DoNothing, new", want: ev(c2), run: func(g *gorm.DB) error { return g.Clauses(nothing).Create(&Account{ID: 1, Name: "a"}).Error }},
		{id: "U01 DoNothing, new, key of the database", want: ev(c2), run: func(g *gorm.DB) error { return g.Clauses(nothing).Create(&Account{Name: "a"}).Error }},
		{id: "U02 DoNothing, there", prepare: three, want: none, run: func(g *gorm.DB) error { return g.Clauses(nothing).Create(&Account{ID: 1, Name: "a"}).Error }},
		{id: "U03 DoNothing, there by another index", prepare: seed(&Member{ID: 1, Email: "e"}), want: none, run: func(g *gorm.DB) error {
			return g.Clauses(nothing).Create(&Member{Email: "e"}).Error
		}},
		{id: "U04 DoNothing batch", prepare: three, want: ev(c2, c2), run: func(g *gorm.DB) error {
			return g.Clauses(nothing).Create(&[]Account{{ID: 1}, {ID: 2}, {ID: 1}, {ID: 3}}).Error
		}},
		{id: "U04 DoNothing batch by another index", prepare: seed(&Member{ID: 1, Email: "e"}), want: ev("member.created"), run: func(g *gorm.DB) error {
			return g.Clauses(nothing).Create(&[]Member{{Email: "e"}, {Email: "f"}}).Error
		}},
		{id: "U04 DoNothing batch, all there", prepare: seed(&[]Account{{ID: 1}, {ID: 2}}), want: none, run: func(g *gorm.DB) error {
			return g.Clauses(nothing).Create(&[]Account{{ID: 1, Age: 9}, {ID: 2}}).Error
		}},
		{id: "U05 DoUpdates, new", want: ev(x), run: func(g *gorm.DB) error { return g.Clauses(status).Create(&Account{ID: 1, Status: "s", Age: 99}).Error }},
		{id: "U05 DoUpdates, new, key of the database", want: ev(c2), run: func(g *gorm.DB) error { return g.Clauses(status).Create(&Account{Status: "s"}).Error }},
		{id: "U06 DoUpdates, there", prepare: three, want: ev(x), run: func(g *gorm.DB) error { return g.Clauses(status).Create(&Account{ID: 1, Status: "s", Age: 99}).Error }},
		{id: "U07 DoUpdates, same values", prepare: three, want: none, run: func(g *gorm.DB) error {
			return g.Clauses(status).Create(&Account{ID: 1, Status: "new", Age: 99}).Error
		}},
		{id: "U08 DoUpdates batch mixed", prepare: three, want: ev(x, c2, x), on: map[string][]string{"mysql": refused}, run: func(g *gorm.DB) error {
			return g.Clauses(status).Create(&[]Account{{ID: 1, Status: "s"}, {Status: "s"}, {ID: 3, Status: "s"}}).Error
		}},
		{id: "U09 DoUpdates where", prepare: three, want: none, on: mysqls(ev(x)), run: func(g *gorm.DB) error {
			oc := status
			oc.Where = clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "1 = 0"}}}
			return g.Clauses(oc).Create(&Account{ID: 1, Status: "s"}).Error
		}},
		{id: "U09 other target", want: ev("member.upserted"), run: func(g *gorm.DB) error {
			oc := clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}
			return g.Clauses(oc).Create(&Member{ID: 2, Email: "e"}).Error
		}},
		{id: "U09 changes the key", prepare: three, want: refused, run: func(g *gorm.DB) error {
			oc := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{"id": 9})}
			return g.Clauses(oc).Create(&Account{ID: 1}).Error
		}},
		{id: "U10 UpdateAll", prepare: three, want: ev(x), run: func(g *gorm.DB) error {
			return g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Account{ID: 1, Name: "u", Score: 77}).Error
		}},
		{id: "U10 UpdateAll of nothing but a key", prepare: seed(&Tag{Name: "t"}), want: ev("tag.created"), run: func(g *gorm.DB) error {
			return g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&[]Tag{{Name: "t"}, {Name: "u"}}).Error
		}},
		{id: "U10 UpdateAll with another index", want: ev("member.upserted"), run: func(g *gorm.DB) error {
			return g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Member{ID: 2, Email: "e"}).Error
		}},
		{id: "U11 Save slice", prepare: three, want: ev(x, x), run: func(g *gorm.DB) error {
			return g.Save(&[]Account{{ID: 1, Name: "s"}, {ID: 2, Name: "t"}}).Error
		}},
		{id: "U11 Save slice without keys", want: ev(c2, c2), run: func(g *gorm.DB) error { return g.Save(&[]Account{{Name: "s"}, {Name: "t"}}).Error }},
	})
}
