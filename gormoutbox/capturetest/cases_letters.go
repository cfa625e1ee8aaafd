package capturetest

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// letterCases are keys in another letter case than the row's. MySQL mostly finds the row by
// them, and the event has the row's own key; others find none.
func letterCases() []Case {
	ab := []any{&seat{Tenant: 1, No: "a", Name: "x"}, &seat{Tenant: 1, No: "b", Name: "y"}}
	a, b := "1|a", "1|b"
	return []Case{
		{
			ID: "M26", Name: "letter case of the key", Code: `db.Model(&Seat{Tenant: 1, No: "A"}).Update("name", "n") // the row has "a"`, prepare: ab,
			Expect: none("no row").except(expect(updated("seat", a).with("No", "a").with("Name", "n")), FoldsCase),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "A"}
				return wrote(db.Model(&s).Update("name", "n"), &s)
			},
		},
		{
			ID: "M26", Name: "letter case of the keys, slice", Code: `db.Model(&[]Seat{{Tenant: 1, No: "B"}, {Tenant: 1, No: "A"}}).Update("name", "n")`, prepare: ab,
			Expect: none("no row").except(expect(updated("seat", a), updated("seat", b)).anyOrder(), FoldsCase),
			write: func(db *gorm.DB) outcome {
				all := []seat{{Tenant: 1, No: "B"}, {Tenant: 1, No: "A"}}
				return wrote(db.Model(&all).Update("name", "n"), &all)
			},
		},
		{
			ID: "S06", Name: "Save, letter case of the key", Code: `db.Save(&Seat{Tenant: 1, No: "A", Name: "n"})`, prepare: ab,
			Expect: expect(upserted("seat", "1|A")).except(expect(updated("seat", a).with("Name", "n")), FoldsCase),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "A", Name: "n"}
				return wrote(db.Save(&s), &s)
			},
		},
		{
			ID: "U13", Name: "DoNothing, letter case of the key", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Seat{{Tenant: 1, No: "A"}, {Tenant: 1, No: "C"}})`, prepare: ab,
			Expect: expect(created("seat", "1|A"), created("seat", "1|C")).except(expect(created("seat", "1|C")), FoldsCase),
			write: func(db *gorm.DB) outcome {
				all := []seat{{Tenant: 1, No: "A"}, {Tenant: 1, No: "C"}}
				return wrote(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&all), &all)
			},
		},
		{
			ID: "U13", Name: "UpdateAll, letter case of the key", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Seat{Tenant: 1, No: "A", Name: "n"})`, prepare: ab,
			Expect: expect(upserted("seat", "1|A")).except(expect(upserted("seat", a).with("Name", "n")), FoldsCase),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "A", Name: "n"}
				return wrote(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&s), &s)
			},
		},
		{
			ID: "D16", Name: "letter case of the key", Code: `db.Delete(&Seat{Tenant: 1, No: "A"})`, prepare: ab,
			Expect: none("no row").except(expect(deleted("seat", a)), FoldsCase),
			write:  func(db *gorm.DB) outcome { s := seat{Tenant: 1, No: "A"}; return wrote(db.Delete(&s), &s) },
		},
		{
			ID: "D16", Name: "letter case of the keys, slice", Code: `db.Delete(&[]Seat{{Tenant: 1, No: "B"}, {Tenant: 1, No: "A"}})`, prepare: ab,
			Expect: none("no row").except(expect(deleted("seat", a), deleted("seat", b)).anyOrder(), FoldsCase),
			write: func(db *gorm.DB) outcome {
				all := []seat{{Tenant: 1, No: "B"}, {Tenant: 1, No: "A"}}
				return wrote(db.Delete(&all), &all)
			},
		},
	}
}
