package gormoutbox_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

func TestDeletePaths(t *testing.T) {
	t.Parallel()
	const d = "account.deleted"
	ctx := context.Background()
	id := uuid.New()
	one := seed(&Account{ID: 1, Name: "one"})
	two := seed(&Account{ID: 1, Name: "one"}, &Account{ID: 2, Name: "two"})
	paper := seed(&Paper{ID: id, Name: "p"})
	gone := func(g *gorm.DB) {
		paper(g)
		g.Delete(&Paper{ID: id})
	}
	runPaths(t, []path{
		{id: "D01 Delete", prepare: one, want: ev(d), run: func(g *gorm.DB) error { return g.Delete(&Account{ID: 1}).Error }},
		{id: "D01 Delete by value", prepare: one, want: ev(d), run: func(g *gorm.DB) error { return g.Delete(Account{ID: 1}).Error }},
		{id: "D01 with a condition", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Where("name = ?", "x").Delete(&Account{ID: 1}).Error }},
		{id: "D02 Delete by id", prepare: one, want: ev(d), run: func(g *gorm.DB) error { return g.Delete(&Account{}, 1).Error }},
		{id: "D02 Delete by ids", prepare: two, want: ev(d, d), run: func(g *gorm.DB) error { return g.Delete(&Account{}, []int{1, 2}).Error }},
		{id: "D03 Delete slice", prepare: two, want: ev(d, d), run: func(g *gorm.DB) error { return g.Delete(&[]Account{{ID: 2}, {ID: 1}}).Error }},
		{id: "D03 Delete slice, one missing", prepare: one, want: ev(d), run: func(g *gorm.DB) error { return g.Delete(&[]Account{{ID: 2}, {ID: 1}}).Error }},
		{id: "D04 missing", want: none, run: func(g *gorm.DB) error { return g.Delete(&Account{ID: 1}).Error }},
		{id: "D05 Where", prepare: one, want: ev(d), run: func(g *gorm.DB) error { return g.Where("name = ?", "one").Delete(&Account{}).Error }},
		{id: "D05 no WHERE", prepare: one, want: fails, run: func(g *gorm.DB) error { return g.Delete(&Account{}).Error }},
		{id: "D05 AllowGlobalUpdate", prepare: one, want: ev(d), run: func(g *gorm.DB) error {
			return g.Session(&gorm.Session{AllowGlobalUpdate: true}).Delete(&Account{}).Error
		}},
		{id: "D06 Model with the key", prepare: two, want: ev(d), run: func(g *gorm.DB) error { return g.Model(&Account{ID: 1}).Delete(&Account{}).Error }},
		{id: "D06 Model and value with other keys", prepare: two, want: none, run: func(g *gorm.DB) error {
			return g.Model(&Account{ID: 1}).Delete(&Account{ID: 2}).Error
		}},
		{id: "D07 soft delete", prepare: paper, want: ev("paper.deleted"), run: func(g *gorm.DB) error { return g.Delete(&Paper{ID: id}).Error }},
		{id: "D08 soft delete twice", prepare: gone, want: none, run: func(g *gorm.DB) error { return g.Delete(&Paper{ID: id}).Error }},
		{id: "D09 Unscoped", prepare: paper, want: ev("paper.deleted"), run: func(g *gorm.DB) error { return g.Unscoped().Delete(&Paper{ID: id}).Error }},
		{id: "D09 Unscoped after soft delete", prepare: gone, want: ev("paper.deleted"), run: func(g *gorm.DB) error {
			return g.Unscoped().Delete(&Paper{ID: id}).Error
		}},
		{id: "D10 restore", prepare: gone, want: ev("paper.updated"), run: func(g *gorm.DB) error {
			return g.Unscoped().Model(&Paper{ID: id}).Update("deleted_at", nil).Error
		}},
		{id: "D10 update of a deleted row", prepare: gone, want: none, run: func(g *gorm.DB) error {
			return g.Model(&Paper{ID: id}).Update("name", "x").Error
		}},
		{id: "D10 update to deleted", prepare: paper, want: ev("paper.updated"), run: func(g *gorm.DB) error {
			return g.Model(&Paper{ID: id}).Update("deleted_at", gorm.Expr("CURRENT_TIMESTAMP")).Error
		}},
		{id: "D11 Returning", prepare: two, want: ev(d, d), run: func(g *gorm.DB) error {
			return g.Clauses(clause.Returning{}).Delete(&[]Account{{ID: 1}, {ID: 2}}).Error
		}},
		{id: "D12 Table, nil", prepare: one, want: refused, run: func(g *gorm.DB) error { return g.Table("accounts").Where("id = 1").Delete(nil).Error }},
		{id: "D13 composite key", prepare: seed(&Seat{Tenant: 1, No: "a"}, &Seat{Tenant: 1, No: "b"}), want: ev("seat.deleted"), run: func(g *gorm.DB) error {
			return g.Delete(&Seat{Tenant: 1, No: "b"}).Error
		}},
		{id: "D13 part of a composite key", prepare: seed(&Seat{Tenant: 1, No: "a"}), want: none, run: func(g *gorm.DB) error { return g.Delete(&Seat{Tenant: 1}).Error }},
		{id: "D15 generics", prepare: one, want: ev(d), run: func(g *gorm.DB) error {
			_, err := gorm.G[Account](g).Where("id = ?", 1).Delete(ctx)
			return err
		}},
		// Documented: GORM does not know of these.
		{id: "R01 Exec", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Exec("DELETE FROM accounts").Error }},
		{id: "R01 Raw", prepare: one, want: none, run: func(g *gorm.DB) error { return g.Raw("SELECT 1").Scan(new(int)).Error }},
		{id: "R01 generics Exec", prepare: one, want: none, run: func(g *gorm.DB) error { return gorm.G[Account](g).Exec(ctx, "DELETE FROM accounts") }},
	})
}
