package capturetest

import "gorm.io/gorm"

func saveCases() []Case {
	load := func(db *gorm.DB) *account {
		var a account
		_ = db.First(&a, 1).Error // a save of an empty account shows the failure
		return &a
	}
	u := updated("account", "1")
	const same = "GORM inserts when no row is counted, and finds the row as it is"
	return []Case{
		{
			ID: "S01", Name: "Save, key zero", Code: `db.Save(&Account{Name: "a"})`, modes: []mode{skipTransaction},
			Expect: expect(created("account", "#1")),
			write:  func(db *gorm.DB) outcome { a := account{Name: "a"}; return wrote(db.Save(&a), &a) },
		},
		{
			ID: "S02", Name: "Save, there", Code: `a.Age = 8; db.Save(&a)`, prepare: two(), modes: []mode{skipTransaction},
			Expect: expect(u.with("Age", 8).with("Name", "one")),
			write: func(db *gorm.DB) outcome {
				a := load(db)
				a.Age = 8
				return wrote(db.Save(a), a)
			},
		},
		{
			ID: "S02", Name: "Save by value", Code: `db.Save(Seat{Tenant: 1, No: "a", Name: "n"})`, prepare: []any{&seat{Tenant: 1, No: "a"}},
			Expect: expect(updated("seat", "1|a")),
			write:  func(db *gorm.DB) outcome { return wrote(db.Save(seat{Tenant: 1, No: "a", Name: "n"})) },
		},
		{
			ID: "S03", Name: "Save, unchanged", Code: `db.Save(&a)`, prepare: one(), modes: []mode{skipTransaction},
			Expect: expect(u).except(none(same), MySQL, MariaDB).except(expect(u), FoundRows),
			write:  func(db *gorm.DB) outcome { a := load(db); return wrote(db.Save(a), a) },
		},
		{
			ID: "S03", Name: "Save, unchanged, another index", Code: `db.Save(&Member{ID: 1, Email: "e"})`, prepare: []any{&member{ID: 1, Email: "e"}},
			Expect: expect(updated("member", "1")).except(none(same), MySQL, MariaDB).except(expect(updated("member", "1")), FoundRows),
			write:  func(db *gorm.DB) outcome { m := member{ID: 1, Email: "e"}; return wrote(db.Save(&m), &m) },
		},
		{
			ID: "S04", Name: "Save, missing", Code: `db.Save(&Order{ID: id, Status: "s"})`, modes: []mode{skipTransaction},
			Expect: expect(upserted("order", id(1).String())),
			write:  func(db *gorm.DB) outcome { o := order{ID: id(1), Status: "s"}; return wrote(db.Save(&o), &o) },
		},
		{
			ID: "S04", Name: "Save, missing, another index", Code: `db.Save(&Member{ID: 5, Email: "e"})`,
			Expect: expect(upserted("member", "5")),
			write:  func(db *gorm.DB) outcome { m := member{ID: 5, Email: "e"}; return wrote(db.Save(&m), &m) },
		},
		{
			ID: "S04", Name: "Save, missing, there by another index", Code: `db.Save(&Member{ID: 5, Email: "e", Name: "n"})`, prepare: []any{&member{ID: 1, Email: "e"}},
			Expect: fails("the database: duplicate key").except(expect(upserted("member", "1").with("Name", "n")), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				m := member{ID: 5, Email: "e", Name: "n"}
				return wrote(db.Save(&m), &m)
			},
		},
		{
			ID: "S04", Name: "Save, softly deleted", Code: `db.Save(&Paper{ID: id, Name: "back"})`, prepare: gone(),
			Expect: expect(upserted("paper", id(1).String()).with("Name", "back").with("DeletedAt", nil)),
			write:  func(db *gorm.DB) outcome { p := paper{ID: id(1), Name: "back"}; return wrote(db.Save(&p), &p) },
		},
		{
			ID: "S05", Name: "Select, Save", Code: `db.Select("Age").Save(&Account{ID: 1, Name: "dirty", Age: 9})`, prepare: one(),
			Expect: expect(u.with("Name", "one").with("Age", 9).changed("age")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Name: "dirty", Age: 9}
				return wrote(db.Select("Age").Save(&a), &a)
			},
		},
		{
			ID: "S05", Name: "Select, Save, missing", Code: `db.Select("Age").Save(&Account{ID: 1, Age: 9})`,
			Expect: none("with Select, Save does not insert"),
			write:  func(db *gorm.DB) outcome { a := account{ID: 1, Age: 9}; return wrote(db.Select("Age").Save(&a), &a) },
		},
		{
			ID: "F01", Name: "FirstOrCreate, found", Code: `db.Where("name = ?", "one").FirstOrCreate(&a)`, prepare: one(),
			Expect: none("nothing is written"),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where("name = ?", "one").FirstOrCreate(&a), &a)
			},
		},
		{
			ID: "F02", Name: "FirstOrCreate, missing", Code: `db.Where(Account{Name: "f"}).Attrs(Account{Age: 3}).FirstOrCreate(&a)`, prepare: one(), modes: []mode{skipTransaction},
			Expect: expect(created("account", "#1").with("Name", "f").with("Age", 3)),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where(account{Name: "f"}).Attrs(account{Age: 3}).FirstOrCreate(&a), &a)
			},
		},
		{
			// GORM updates by the conditions of the query, with the key of what it found.
			ID: "F03", Name: "FirstOrCreate, Assign, found", Code: `db.Where("name = ?", "one").Assign(Account{Age: 44}).FirstOrCreate(&a)`, prepare: one(),
			Expect: expect(u.with("Age", 44)),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where("name = ?", "one").Assign(account{Age: 44}).FirstOrCreate(&a), &a)
			},
		},
		{
			ID: "F03", Name: "FirstOrCreate, Assign, missing", Code: `db.Where(Account{Name: "f"}).Assign(Account{Age: 44}).FirstOrCreate(&a)`,
			Expect: expect(created("account", "#1").with("Age", 44)),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where(account{Name: "f"}).Assign(account{Age: 44}).FirstOrCreate(&a), &a)
			},
		},
		{
			ID: "F04", Name: "FirstOrInit", Code: `db.Where(Account{Name: "f"}).FirstOrInit(&a)`, prepare: one(),
			Expect: none("nothing is written"),
			write: func(db *gorm.DB) outcome {
				var a account
				return wrote(db.Where(account{Name: "f"}).FirstOrInit(&a), &a)
			},
		},
	}
}
