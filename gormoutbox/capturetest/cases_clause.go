package capturetest

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// clauseCases are writes of which a clause of the user makes something else, and rows whose key has a part that is zero.
func clauseCases() []Case {
	const elsewhere = "a clause names another table"
	accounts, shards := clause.Table{Name: "accounts"}, clause.Table{Name: shard}
	own := clause.Table{Name: clause.CurrentTable}
	zero := []any{&seat{Tenant: 0, No: "a", Name: "s"}, &seat{Tenant: 1, No: "a"}}
	lost := refused("rows are deleted or left out that nothing tells of")
	return []Case{
		{
			ID: "C29", Name: "another table by a clause", Code: `db.Clauses(clause.Insert{Table: clause.Table{Name: "accounts_2026"}}).Create(&Account{Name: "a"})`,
			Expect: refused(elsewhere),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Clauses(clause.Insert{Table: shards}).Create(&a), &a)
			},
		},
		{
			ID: "C29", Name: "the same table by a clause", Code: `db.Clauses(clause.Insert{Table: clause.Table{Name: "accounts"}}).Create(&Account{Name: "a"})`,
			Expect: expect(created("account", "#1")),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Clauses(clause.Insert{Table: accounts}).Create(&a), &a)
			},
		},
		{
			ID: "C31", Name: "annotated table by a clause", Code: `db.Clauses(clause.Insert{Table: clause.Table{Name: "langs"}}).Create(&Tag{Name: "a"})`,
			Expect: refused(elsewhere),
			write: func(db *gorm.DB) outcome {
				a := tag{Name: "a"}
				return wrote(db.Clauses(clause.Insert{Table: clause.Table{Name: "langs"}}).Create(&a), &a)
			},
		},
		{
			ID: "C31", Name: "model without annotation, annotated table by a clause", Code: `db.Clauses(clause.Insert{Table: clause.Table{Name: "tags"}}).Create(&Lang{Code: "a"})`,
			Expect: refused("the table belongs to an annotated model"),
			write: func(db *gorm.DB) outcome {
				l := lang{Code: "a"}
				// The plugin knows the model by now, and looks at its statements no closer than it has to.
				if err := db.Session(&gorm.Session{DryRun: true}).Create(&lang{Code: "known"}).Error; err != nil {
					return outcome{err: err}
				}
				return wrote(db.Clauses(clause.Insert{Table: clause.Table{Name: "tags"}}).Create(&l), &l)
			},
		},
		{
			ID: "C01", Name: "INSERT IGNORE", Code: `db.Clauses(clause.Insert{Modifier: "ignore"}).Create(&Account{Name: "a"})`,
			Expect: lost,
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Clauses(clause.Insert{Modifier: "ignore"}).Create(&a), &a)
			},
		},
		{
			ID: "C01", Name: "INSERT OR REPLACE", Code: `db.Clauses(clause.Insert{Modifier: "OR REPLACE"}).Create(&Account{ID: 1, Name: "a"})`, prepare: one(),
			Expect: lost,
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Name: "a"}
				return wrote(db.Clauses(clause.Insert{Modifier: "OR REPLACE"}).Create(&a), &a)
			},
		},
		{
			ID: "M19", Name: "another table by a clause", Code: `db.Clauses(clause.Update{Table: clause.Table{Name: "accounts_2026"}}).Model(&a).Update("age", 8)`, prepare: one(),
			Expect: refused(elsewhere),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.Update{Table: shards}).Model(&a).Update("age", 8), &a)
			},
		},
		{
			ID: "M19", Name: "the same table by a clause", Code: `db.Clauses(clause.Update{Table: clause.Table{Name: clause.CurrentTable}}).Model(&a).Update("age", 8)`, prepare: one(),
			Expect: expect(updated("account", "1").with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.Update{Table: own}).Model(&a).Update("age", 8), &a)
			},
		},
		{
			ID: "M19", Name: "UPDATE OR REPLACE", Code: `db.Clauses(clause.Update{Modifier: "OR REPLACE"}).Model(&a).Update("id", 2)`, prepare: two(),
			Expect: lost,
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.Update{Modifier: "OR REPLACE"}).Model(&a).Update("id", 2), &a)
			},
		},
		{
			ID: "D12", Name: "another table by a clause", Code: `db.Clauses(clause.From{Tables: []clause.Table{{Name: "accounts_2026"}}}).Delete(&a)`, prepare: one(),
			Expect: refused(elsewhere),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.From{Tables: []clause.Table{shards}}).Delete(&a), &a)
			},
		},
		{
			ID: "D12", Name: "soft, another table by a clause", Code: `db.Clauses(clause.Update{Table: clause.Table{Name: "accounts"}}).Delete(&paper)`,
			prepare: []any{&paper{ID: id(1), Name: "p"}},
			Expect:  refused(elsewhere),
			write: func(db *gorm.DB) outcome {
				p := paper{ID: id(1)}
				return wrote(db.Clauses(clause.Update{Table: accounts}).Delete(&p), &p)
			},
		},
		{
			ID: "D07", Name: "soft, OR behind a line break, deleted before", Code: `db.Where("name = ?\nor name = ?", "p", "q").Delete(&Paper{})`,
			prepare: []any{
				&paper{ID: id(1), Name: "p", DeletedAt: gorm.DeletedAt{Time: clock().Add(-time.Hour), Valid: true}},
				&paper{ID: id(2), Name: "q"}, &paper{ID: id(3), Name: "r"},
			},
			Expect: expect(softDeleted(id(1).String()), softDeleted(id(2).String())).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Where("name = ?\nor name = ?", "p", "q").Delete(&paper{}))
			},
		},
		{
			ID: "D12", Name: "DELETE IGNORE", Code: `db.Clauses(clause.Delete{Modifier: "IGNORE"}).Delete(&a)`, prepare: one(),
			Expect: lost,
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				return wrote(db.Clauses(clause.Delete{Modifier: "IGNORE"}).Delete(&a), &a)
			},
		},
		{
			ID: "M13", Name: "a part of the key is zero", Code: `db.Model(&Seat{}).Where("no = ?", "a").Update("name", "t")`, prepare: zero,
			Expect: expect(updated("seat", "0|a").with("Name", "t"), updated("seat", "1|a").with("Name", "t")).anyOrder(),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Model(&seat{}).Where("no = ?", "a").Update("name", "t"))
			},
		},
		{
			ID: "D05", Name: "Where, a part of the key is zero", Code: `db.Where("tenant = ?", 0).Delete(&Seat{})`, prepare: zero,
			Expect: expect(deleted("seat", "0|a").with("Name", "s")),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Where("tenant = ?", 0).Delete(&seat{}))
			},
		},
	}
}
