package gormoutbox_test

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

func msDeletePaths() []msPath {
	ctx := context.Background()
	model := &Account{}
	a1, a2 := msAccount(1), msAccount(2)
	one := msTx(msHold(model, a1), msDelete(model, 1), msDeleted(a1))
	two := msTx(msHold(model, a1, a2), msDelete(model, 2), msDeleted(a1, a2))
	none := msTx(msHold(model), msDelete(model, 0))
	paper := &Paper{ID: msID, Name: "of the row"}
	gone := &Paper{ID: msID, Name: "of the row", DeletedAt: gorm.DeletedAt{Time: msNow().AddDate(0, 1, 0), Valid: true}}
	seat := &Seat{Tenant: 1, No: "b", Name: "of the row"}
	part := &Part{ID: 1, Name: "of the row"}
	outputs := msStep{token: "DELETE accounts", rows: []any{a1, a2}}
	del := func(fn func(g *gorm.DB) *gorm.DB) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome { return msDid(fn(g), nil) }
	}
	return []msPath{
		{id: "D01 Delete", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{ID: 1, Name: "memory"}
			return msDid(g.Delete(&a), a)
		}},
		{id: "D01 Delete by value", steps: one, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(Account{ID: 1}) })},
		{id: "D01 with a condition", steps: none, run: del(func(g *gorm.DB) *gorm.DB { return g.Where("name = ?", "x").Delete(&Account{ID: 1}) })},
		{id: "D02 Delete by id", steps: one, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Account{}, 1) })},
		{id: "D02 Delete by ids", steps: two, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Account{}, []int{1, 2}) })},
		{id: "D03 Delete slice", steps: msTx(msHold(model, a1, a2), msDelete(model, 2), msDeleted(a2, a1)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Delete(&[]Account{{ID: 2}, {ID: 1}})
		})},
		{id: "D03 Delete slice, one missing", steps: one, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&[]Account{{ID: 2}, {ID: 1}}) })},
		{id: "D04 missing", steps: none, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Account{ID: 1}) })},
		{id: "D05 Where", steps: two, run: del(func(g *gorm.DB) *gorm.DB { return g.Where("name = ?", "one").Delete(&Account{}) })},
		{id: "D05 Where, Or", steps: two, run: del(func(g *gorm.DB) *gorm.DB {
			return g.Where("name = ?", "one").Or("name = ?", "two").Delete(&Account{})
		})},
		{id: "D05 no WHERE", steps: msUndone(), fails: true, run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Account{}) })},
		{id: "D05 AllowGlobalUpdate", steps: two, run: del(func(g *gorm.DB) *gorm.DB {
			return g.Session(&gorm.Session{AllowGlobalUpdate: true}).Delete(&Account{})
		})},
		{id: "D06 Model with the key", steps: one, run: del(func(g *gorm.DB) *gorm.DB { return g.Model(&Account{ID: 1}).Delete(&Account{}) })},
		{id: "D06 Model and value with other keys", steps: none, run: del(func(g *gorm.DB) *gorm.DB {
			return g.Model(&Account{ID: 1}).Delete(&Account{ID: 2})
		})},
		{
			id: "D07 soft delete", steps: msTx(msHold(paper, paper), msUpdate(paper, 1), msBack(gone),
				msEmit(msEvent{kind: "deleted", row: gone}.with("soft_delete", "true"))),
			run: func(g *gorm.DB) msOutcome {
				p := Paper{ID: msID, Name: "memory"}
				return msDid(g.Delete(&p), p)
			},
		},
		{id: "D07 soft delete, Where", steps: msTx(msHold(paper, paper), msUpdate(paper, 1), msBack(gone), msDeleted(gone)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Where("name = ?", "x").Delete(&Paper{})
		})},
		{id: "D07 soft delete, Or", steps: msTx(msHold(paper, paper), msUpdate(paper, 1), msBack(gone), msDeleted(gone)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Where("name = ?", "x").Or("name = ?", "y").Delete(&Paper{})
		})},
		{id: "D08 soft delete twice", steps: msTx(msHold(paper), msUpdate(paper, 0)), run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Paper{ID: msID}) })},
		{
			id: "D09 Unscoped", steps: msTx(msHold(paper, gone), msDelete(paper, 1), msEmit(msEvent{kind: "deleted", row: gone}.with("soft_delete", ""))),
			run: del(func(g *gorm.DB) *gorm.DB { return g.Unscoped().Delete(&Paper{ID: msID}) }),
		},
		{id: "D10 restore", steps: msTx(msUpdate(paper, 1), msBack(paper), msUpdated(paper)), run: func(g *gorm.DB) msOutcome {
			p := *gone
			return msDid(g.Unscoped().Model(&p).Update("deleted_at", nil), p)
		}},
		{id: "D10 update of a deleted row", steps: msTx(msUpdate(paper, 0)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Model(&Paper{ID: msID}).Update("name", "x")
		})},
		{id: "D11 Returning", steps: msTx(msHold(model, a1, a2), outputs, msDeleted(a1, a2)), run: func(g *gorm.DB) msOutcome {
			var all []Account
			return msDid(g.Clauses(clause.Returning{}).Where("age = ?", 7).Delete(&all), all)
		}},
		// GORM counts the one row that it has put into the value.
		{id: "D11 Returning into one", steps: msTx(msHold(model, a1, a2), outputs, msDeleted(a1, a2)), run: func(g *gorm.DB) msOutcome {
			var a Account
			return msDid(g.Clauses(clause.Returning{}).Where("age = ?", 7).Delete(&a), a)
		}},
		{id: "D12 Table, nil", steps: msUndone(), refused: true, run: del(func(g *gorm.DB) *gorm.DB { return g.Table("accounts").Where("id = 1").Delete(nil) })},
		// The server refuses the list of tuples that GORM makes of the key.
		{id: "D13 composite key", foreign: true, steps: msTx(msHold(seat, seat), msDelete(seat, 1), msDeleted(seat)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Delete(&Seat{Tenant: 1, No: "b"})
		})},
		{id: "D13 composite key, Where", steps: msTx(msHold(seat, seat), msDelete(seat, 1), msDeleted(seat)), run: del(func(g *gorm.DB) *gorm.DB {
			return g.Where("tenant = ? AND no = ?", 1, "b").Delete(&Seat{})
		})},
		// The rows that the database deletes with this one are not seen.
		{id: "D14 cascade", steps: msTx(msHold(part, part), msDelete(part, 1), msDeleted(part)), run: del(func(g *gorm.DB) *gorm.DB { return g.Delete(&Part{ID: 1}) })},
		{id: "D15 generics", steps: two, run: func(g *gorm.DB) msOutcome {
			n, err := gorm.G[Account](g).Where("age = ?", 7).Delete(ctx)
			return msOutcome{rows: int64(n), err: err}
		}},
		{id: "R01 Exec", steps: []msStep{msDelete(model, 3)}, run: del(func(g *gorm.DB) *gorm.DB { return g.Exec(`DELETE FROM "accounts"`) })},
		{id: "R01 Raw", steps: []msStep{msRead(model, a1)}, run: func(g *gorm.DB) msOutcome {
			var a Account
			return msDid(g.Raw(`SELECT * FROM "accounts"`).Scan(&a), a)
		}},
		{id: "R01 generics Exec", steps: []msStep{msDelete(model, 3)}, run: func(g *gorm.DB) msOutcome {
			return msOutcome{err: gorm.G[Account](g).Exec(ctx, `DELETE FROM "accounts"`)}
		}},
	}
}
