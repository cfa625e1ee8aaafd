package gormoutbox_test

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func msSavePaths() []msPath {
	row := msAccount(1)
	changed := msAccount(1)
	changed.Age = 71
	order, other := msOrder(), msOrder()
	other.Amount = 78
	account := func() *Account { return &Account{ID: 1, Name: "memory", Age: 7} }
	save := func(value any) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome { return msDid(g.Save(value), value) }
	}
	return []msPath{
		{id: "S01 Save, key zero", steps: msTx(msInsert(row), msBack(row), msCreated(row)), run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Save(&a), a)
		}},
		{id: "S02 Save, there", steps: msTx(msUpdate(&Account{}, 1), msBack(changed), msUpdated(changed)), run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Save(a), a)
		}},
		// SQL Server counts the rows that it found.
		{id: "S03 Save, unchanged", steps: msTx(msUpdate(&Account{}, 1), msBack(row), msUpdated(row)), run: func(g *gorm.DB) msOutcome {
			a := *row
			return msDid(g.Save(&a), a)
		}},
		{
			id:    "S04 Save, missing",
			steps: append(msTx(msUpdate(&Order{}, 0)), msTx(msMerged(&Order{}, nil, []any{order}, []any{order}, msUpserted(order))...)...),
			run: func(g *gorm.DB) msOutcome {
				o := Order{ID: msID, Status: "memory"}
				return msDid(g.Save(&o), o)
			},
		},
		{
			id: "S04 Save, missing, key of the database that is set", refused: true,
			steps: append(msTx(msUpdate(&Account{}, 0)), msUndone(msHold(&Account{}))...), run: save(account()),
		},
		{
			id:    "S04 Save, made by another in between",
			steps: append(msTx(msUpdate(&Order{}, 0)), msTx(msMerged(&Order{}, []any{order}, []any{other}, []any{other}, msUpserted(other))...)...),
			run: func(g *gorm.DB) msOutcome {
				o := Order{ID: msID, Status: "memory"}
				return msDid(g.Save(&o), o)
			},
		},
		{id: "S05 Select, Save", steps: msTx(msUpdate(&Account{}, 1), msBack(changed), msUpdated(changed)), run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Select("Age").Save(a), a)
		}},
		{id: "F01 FirstOrCreate, found", steps: []msStep{msRead(row, row)}, run: func(g *gorm.DB) msOutcome {
			var a Account
			return msDid(g.Where("name = ?", "one").FirstOrCreate(&a), a)
		}},
		{
			id: "F02 FirstOrCreate, missing", steps: append([]msStep{msRead(&Account{})}, msTx(msInsert(row), msBack(row), msCreated(row))...),
			run: func(g *gorm.DB) msOutcome {
				var a Account
				return msDid(g.Where(Account{Name: "memory"}).FirstOrCreate(&a), a)
			},
		},
		{
			id:    "F03 FirstOrCreate, Assign, found",
			steps: append([]msStep{msRead(row, row)}, msTx(msUpdate(&Account{}, 1), msBack(changed), msUpdated(changed))...),
			run: func(g *gorm.DB) msOutcome {
				var a Account
				return msDid(g.Where("name = ?", "one").Assign(Account{Age: 44}).FirstOrCreate(&a), a)
			},
		},
		{id: "F04 FirstOrInit", steps: []msStep{msRead(&Account{})}, run: func(g *gorm.DB) msOutcome {
			var a Account
			return msDid(g.Where(Account{Name: "memory"}).FirstOrInit(&a), a)
		}},
	}
}

func msUpdatePaths() []msPath {
	ctx := context.Background()
	was1, was2 := msAccount(1), msAccount(2)
	now1, now2 := msAccount(1), msAccount(2)
	now1.Age, now2.Age = 71, 72
	account := func() *Account { return &Account{ID: 1, Name: "memory", Age: 7} }
	model := &Account{}
	byKey := msTx(msUpdate(model, 1), msBack(now1), msUpdated(now1))
	held := msTx(msHold(model, was1, was2), msUpdate(model, 2), msBack(now1, now2), msUpdated(now1, now2))
	heldOne := msTx(msHold(model, was1), msUpdate(model, 1), msBack(now1), msUpdated(now1))
	missing := msTx(msUpdate(model, 0))
	outputs := msStep{token: "UPDATE accounts", rows: []any{now1, now2}}
	output := msStep{token: "UPDATE accounts", rows: []any{now1}}
	seatsWas := []any{&Seat{Tenant: 1, No: "a", Name: "old"}, &Seat{Tenant: 1, No: "b", Name: "old"}}
	seats := []any{&Seat{Tenant: 1, No: "a", Name: "of the row"}, &Seat{Tenant: 1, No: "b", Name: "of the row"}}
	version := &Versioned{ID: 1, Name: "of the row", Version: 8}
	wasOrder, nowOrder := msOrder(), msOrder()
	wasOrder.ID[0] = 9
	// on updates the account of memory, which the outcome shows.
	on := func(fn func(tx *gorm.DB) *gorm.DB) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(fn(g.Model(a)), a)
		}
	}
	bulk := func(fn func(tx *gorm.DB) *gorm.DB) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome {
			var a Account
			return msDid(fn(g.Model(&a)), a)
		}
	}
	return []msPath{
		{id: "M01 Update, dirty", run: on(func(tx *gorm.DB) *gorm.DB { return tx.Update("age", 8) }), steps: msTx(
			msUpdate(model, 1), msBack(now1), msEmit(msEvent{kind: "updated", row: now1}.with("changed", "age")),
		)},
		{id: "M02 same value", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Update("age", 7) })},
		{id: "M03 expression", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Update("age", gorm.Expr("age + ?", 1)) })},
		{id: "M04 Updates struct", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(Account{Age: 9}) })},
		// GORM's driver leaves the identity out of the assignments, as the server refuses to change it.
		{id: "M04 Updates struct with the key", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(Account{ID: 1, Age: 9}) })},
		{id: "M04 Updates itself", steps: byKey, run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Updates(a), a)
		}},
		{id: "M05 Updates DTO", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(AccountDTO{Name: "d"}) })},
		{id: "M06 Model by value", steps: byKey, run: func(g *gorm.DB) msOutcome { return msDid(g.Model(*account()).Update("age", 8), nil) }},
		{id: "M06 Updates by value", steps: byKey, run: func(g *gorm.DB) msOutcome { return msDid(g.Updates(*account()), nil) }},
		{id: "M07 nothing to set", steps: msTx(), run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(Account{}) })},
		{id: "M08 missing", steps: missing, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Update("age", 8) })},
		{id: "M08 condition", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Where("age = ?", 7).Update("age", 8) })},
		{id: "M08 Or", steps: heldOne, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Where("age = ?", 1).Or("age = ?", 7).Update("age", 8) })},
		{id: "M09 UpdateColumn", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.UpdateColumn("age", 8) })},
		{id: "M09 UpdateColumns", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.UpdateColumns(map[string]any{"age": 8}) })},
		{id: "M09 SkipHooks", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Session(&gorm.Session{SkipHooks: true}).Update("age", 8) })},
		{id: "M10 Where", steps: held, run: bulk(func(tx *gorm.DB) *gorm.DB { return tx.Where("age = ?", 7).Update("age", 8) })},
		{id: "M10 Where, none", steps: msTx(msHold(model), msUpdate(model, 0)), run: bulk(func(tx *gorm.DB) *gorm.DB { return tx.Where("age = ?", 7).Update("age", 8) })},
		// A row that has its values already is no event where the rows before are known.
		{
			id: "M10 Where, one unchanged", steps: msTx(msHold(model, was1, was2), msUpdate(model, 2), msBack(was1, now2), msUpdated(now2)),
			run: bulk(func(tx *gorm.DB) *gorm.DB { return tx.Where("age = ?", 7).Update("age", 8) }),
		},
		{
			id: "M11 Where, Returning", steps: msTx(msHold(model, was1, was2), outputs, msBack(now1, now2), msUpdated(now1, now2)),
			run: func(g *gorm.DB) msOutcome {
				var all []Account
				return msDid(g.Model(&all).Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8), all)
			},
		},
		{
			id: "M11 Where, Returning of a column", steps: msTx(msHold(model, was1, was2), outputs, msBack(now1, now2), msUpdated(now1, now2)),
			run: func(g *gorm.DB) msOutcome {
				var all []Account
				return msDid(g.Model(&all).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).Where("age = ?", 7).Update("age", 8), all)
			},
		},
		{
			id: "M12 Where, Returning into one", steps: msTx(msHold(model, was1, was2), outputs, msBack(now1, now2), msUpdated(now1, now2)),
			run: bulk(func(tx *gorm.DB) *gorm.DB {
				return tx.Clauses(clause.Returning{}).Where("age = ?", 7).Update("age", 8)
			}),
		},
		{id: "M12 key, Returning", steps: msTx(output, msBack(now1), msUpdated(now1)), run: on(func(tx *gorm.DB) *gorm.DB {
			return tx.Clauses(clause.Returning{}).Update("age", 8)
		})},
		{id: "M13 slice", steps: held, run: func(g *gorm.DB) msOutcome {
			all := []Account{{ID: 1}, {ID: 2}}
			return msDid(g.Model(&all).Update("age", 8), all)
		}},
		{id: "M13 slice, one missing", steps: heldOne, run: func(g *gorm.DB) msOutcome {
			all := []Account{{ID: 1}, {ID: 2}}
			return msDid(g.Model(&all).Update("age", 8), all)
		}},
		{id: "M13 slice, last without key", steps: msUndone(), fails: true, run: func(g *gorm.DB) msOutcome {
			all := []Account{{ID: 1}, {}}
			return msDid(g.Model(&all).Update("age", 8), all)
		}},
		{id: "M13 slice with conditions", steps: heldOne, run: func(g *gorm.DB) msOutcome {
			all := []Account{{ID: 1}, {ID: 2}}
			return msDid(g.Model(&all).Where("name = ?", "one").Update("age", 8), all)
		}},
		{id: "M14 part of a key", steps: msTx(msHold(&Seat{}, seatsWas...), msUpdate(&Seat{}, 2), msBack(seats...), msUpdated(seats...)), run: func(g *gorm.DB) msOutcome {
			s := Seat{Tenant: 1}
			return msDid(g.Model(&s).Update("name", "memory"), s)
		}},
		{id: "M14 composite key", steps: msTx(msUpdate(&Seat{}, 1), msBack(seats[0]), msUpdated(seats[0])), run: func(g *gorm.DB) msOutcome {
			s := Seat{Tenant: 1, No: "a"}
			return msDid(g.Model(&s).Update("name", "memory"), s)
		}},
		{
			id: "M15 key changes", steps: msTx(msHold(&Order{}, wasOrder), msUpdate(&Order{}, 1), msBack(nowOrder),
				msEmit(msEvent{kind: "updated", row: nowOrder}.with("previous_aggregate_id", wasOrder.ID.String()))),
			run: func(g *gorm.DB) msOutcome {
				o := Order{ID: wasOrder.ID, Status: "memory"}
				return msDid(g.Model(&o).Update("id", msID), o)
			},
		},
		{id: "M15 keys of several change", refused: true, steps: msUndone(msHold(&Order{}, wasOrder, nowOrder)), run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Order{}).Where("amount = ?", 7).Update("id", msID), nil)
		}},
		// An identity can't be changed: GORM's driver leaves it out, and here nothing is left.
		{id: "M15 key of the database changes", steps: msTx(), run: on(func(tx *gorm.DB) *gorm.DB { return tx.Update("id", 9) })},
		{id: "M15 key of the database stays", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(map[string]any{"id": 1, "age": 8}) })},
		{id: "M16 map and serializer", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB { return tx.Updates(map[string]any{"tags": `["x"]`}) })},
		{id: "M17 JSON expression", steps: byKey, run: on(func(tx *gorm.DB) *gorm.DB {
			return tx.Update("tags", gorm.Expr("JSON_MODIFY(tags, '$[0]', ?)", "x"))
		})},
		{id: "M18 version matches", steps: msTx(msUpdate(version, 1), msBack(version), msUpdated(version)), run: func(g *gorm.DB) msOutcome {
			v := Versioned{ID: 1, Version: 1}
			return msDid(g.Model(&v).Updates(map[string]any{"name": "memory"}), v)
		}},
		{id: "M18 version is stale", steps: msTx(msUpdate(version, 0)), run: func(g *gorm.DB) msOutcome {
			v := Versioned{ID: 1, Version: 1}
			return msDid(g.Model(&v).Updates(map[string]any{"name": "memory"}), v)
		}},
		{id: "M19 Table", steps: msUndone(), refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Table("accounts").Where("id = 1").Updates(map[string]any{"age": 8}), nil)
		}},
		{id: "M20 no WHERE", steps: msUndone(), fails: true, run: bulk(func(tx *gorm.DB) *gorm.DB { return tx.Update("age", 8) })},
		{id: "M20 AllowGlobalUpdate", steps: held, run: bulk(func(tx *gorm.DB) *gorm.DB {
			return tx.Session(&gorm.Session{AllowGlobalUpdate: true}).Update("age", 8)
		})},
		{id: "M21 generics", steps: held, run: func(g *gorm.DB) msOutcome {
			n, err := gorm.G[Account](g).Where("age = ?", 7).Update(ctx, "age", 8)
			return msOutcome{rows: int64(n), err: err}
		}},
		{id: "M21 generics Updates", steps: held, run: func(g *gorm.DB) msOutcome {
			n, err := gorm.G[Account](g).Where("age = ?", 7).Updates(ctx, Account{Age: 8})
			return msOutcome{rows: int64(n), err: err}
		}},
		{id: "M21 generics Set", steps: held, run: func(g *gorm.DB) msOutcome {
			n, err := gorm.G[Account](g).Where("age = ?", 7).Set(clause.Assignment{Column: clause.Column{Name: "age"}, Value: 8}).Update(ctx)
			return msOutcome{rows: int64(n), err: err}
		}},
		{
			id: "M22 hook updates the same row",
			steps: msTx(msInsert(counterRow("first")), msBack(counterRow("first")), msCreated(counterRow("first")),
				msUpdate(&Counter{}, 1), msBack(counterRow("second")), msUpdated(counterRow("second"))),
			run: func(g *gorm.DB) msOutcome {
				h := Counter{ID: 1, Name: "memory"}
				return msDid(g.Create(&h), h)
			},
		},
	}
}

func counterRow(name string) *Counter { return &Counter{ID: 1, Name: name} }

// Counter updates its own row once it is created.
type Counter struct {
	_    gormoutbox.Emit `outbox:"aggregate=counter"`
	ID   int             `gorm:"autoIncrement:false"`
	Name string
}

// AfterCreate is a hook of GORM.
func (c *Counter) AfterCreate(tx *gorm.DB) error { return tx.Model(c).Update("name", "hook").Error }
