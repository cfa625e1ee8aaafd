package capturetest

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// onConflict is by the primary key and assigns columns.
func onConflict(columns ...string) clause.OnConflict {
	return clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns(columns)}
}

func upsertCases() []Case {
	return append(doNothingCases(), doUpdateCases()...)
}

func doNothingCases() []Case {
	nothing := clause.OnConflict{DoNothing: true}
	e := []any{&member{ID: 1, Email: "e", Name: "old"}}
	mixed := refused("rows with and without a key: which were written can't be told")
	return []Case{
		{
			ID: "U01", Name: "DoNothing, new", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Account{ID: 1, Name: "a"})`, modes: []mode{skipTransaction},
			Expect: expect(created("account", "1")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Name: "a"}
				return wrote(db.Clauses(nothing).Create(&a), &a)
			},
		},
		{
			ID: "U01", Name: "DoNothing, new, key of the database", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Account{Name: "a"})`,
			Expect: expect(created("account", "#1")),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Clauses(nothing).Create(&a), &a)
			},
		},
		{
			ID: "U01", Name: "DoNothing, new, another index", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Member{Email: "f"})`, prepare: e,
			Expect: expect(created("member", "#1")),
			write: func(db *gorm.DB) outcome {
				m := member{Email: "f"}
				return wrote(db.Clauses(nothing).Create(&m), &m)
			},
		},
		{
			ID: "U02", Name: "DoNothing, there", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Account{ID: 1, Name: "mine"})`, prepare: one(),
			Expect: none("somebody else's row stays"),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Name: "mine"}
				return wrote(db.Clauses(nothing).Create(&a), &a)
			},
		},
		{
			ID: "U03", Name: "DoNothing, there by another index", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Member{Email: "e"})`, prepare: e,
			Expect: none("somebody else's row stays"),
			write: func(db *gorm.DB) outcome {
				m := member{Email: "e"}
				return wrote(db.Clauses(nothing).Create(&m), &m)
			},
		},
		{
			ID: "U03", Name: "DoNothing, there by another index, with a key", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Member{ID: 2, Email: "e"})`, prepare: e,
			Expect: none("somebody else's row stays"),
			write: func(db *gorm.DB) outcome {
				m := member{ID: 2, Email: "e"}
				return wrote(db.Clauses(nothing).Create(&m), &m)
			},
		},
		{
			ID: "U04", Name: "DoNothing, batch", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Account{{ID: 1}, {ID: 3}, {ID: 1}, {ID: 2}})`, prepare: one(),
			Expect: expect(created("account", "3"), created("account", "2")),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {ID: 3}, {ID: 1}, {ID: 2}}
				return wrote(db.Clauses(nothing).Create(&all), &all)
			},
		},
		{
			ID: "U04", Name: "DoNothing, batch by another index", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Member{{Email: "e"}, {Email: "f"}, {Email: "e"}, {Email: "g"}})`, prepare: e,
			Expect: expect(created("member", "*"), created("member", "*")),
			write: func(db *gorm.DB) outcome {
				all := []member{{Email: "e"}, {Email: "f"}, {Email: "e"}, {Email: "g"}}
				return wrote(db.Clauses(nothing).Create(&all), &all)
			},
		},
		{
			ID: "U04", Name: "DoNothing, batch, all there", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Account{{ID: 2, Age: 9}, {ID: 1}})`, prepare: two(),
			Expect: none("nothing is written"),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 2, Age: 9}, {ID: 1}}
				return wrote(db.Clauses(nothing).Create(&all), &all)
			},
		},
		{
			ID: "U04", Name: "DoNothing, batch, some keys set", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Account{{ID: 1}, {Name: "a"}, {ID: 2}})`, prepare: one(),
			Expect: expect(created("account", "*").with("Name", "a"), created("account", "2")).except(mixed, MySQL),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1}, {Name: "a"}, {ID: 2}}
				return wrote(db.Clauses(nothing).Create(&all), &all)
			},
		},
		{
			ID: "U04", Name: "DoNothing, batch of composite keys", Code: `db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Seat{{Tenant: 1, No: "b"}, {Tenant: 1, No: "a"}})`, prepare: []any{&seat{Tenant: 1, No: "a"}},
			Expect: expect(created("seat", "1|b")),
			write: func(db *gorm.DB) outcome {
				all := []seat{{Tenant: 1, No: "b"}, {Tenant: 1, No: "a"}}
				return wrote(db.Clauses(nothing).Create(&all), &all)
			},
		},
		{
			ID: "U04", Name: "DoNothing, map", Code: `db.Model(&Seat{}).Clauses(clause.OnConflict{DoNothing: true}).Create(maps)`, prepare: []any{&seat{Tenant: 1, No: "a"}},
			Expect: expect(created("seat", "1|b")).except(refused("conflicts of maps are not looked up"), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				m := []map[string]any{{"tenant": 1, "no": "b"}, {"tenant": 1, "no": "a"}}
				return wrote(db.Model(&seat{}).Clauses(nothing).Create(m), m)
			},
		},
	}
}

func doUpdateCases() []Case {
	e := []any{&member{ID: 1, Email: "e", Name: "old"}}
	x := upserted("account", "1")
	mixed := refused("rows with and without a key: which were written can't be told")
	byEmail := clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}
	all := clause.OnConflict{UpdateAll: true}
	where := func(sql string) clause.OnConflict {
		c := onConflict("status")
		c.Where = clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: sql}}}
		return c
	}
	const unchanged = "no column changed"
	return []Case{
		{
			ID: "U05", Name: "DoUpdates, new", Code: `db.Clauses(byID("status")).Create(&Account{ID: 1, Status: "s", Age: 99})`,
			Expect: expect(x.with("Age", 99)),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "s", Age: 99}
				return wrote(db.Clauses(onConflict("status")).Create(&a), &a)
			},
		},
		{
			ID: "U05", Name: "DoUpdates, new, key of the database", Code: `db.Clauses(byID("status")).Create(&Account{Status: "s"})`,
			Expect: expect(created("account", "#1")),
			write: func(db *gorm.DB) outcome {
				a := account{Status: "s"}
				return wrote(db.Clauses(onConflict("status")).Create(&a), &a)
			},
		},
		{
			ID: "U06", Name: "DoUpdates, there", Code: `db.Clauses(byID("status")).Create(&Account{ID: 1, Status: "s", Age: 99})`, prepare: two(), modes: []mode{skipTransaction},
			Expect: expect(x.with("Age", 7).with("Status", "s")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "s", Age: 99}
				return wrote(db.Clauses(onConflict("status")).Create(&a), &a)
			},
		},
		{
			ID: "U06", Name: "DoUpdates by an expression", Code: `db.Clauses(clause.OnConflict{Columns: id, DoUpdates: clause.Assignments(map[string]any{"age": gorm.Expr("accounts.age + 1")})}).Create(&a)`, prepare: two(),
			Expect: expect(x.with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a, c := account{ID: 1, Age: 99}, onConflict()
				c.DoUpdates = clause.Assignments(map[string]any{"age": gorm.Expr("accounts.age + 1")})
				return wrote(db.Clauses(c).Create(&a), &a)
			},
		},
		{
			ID: "U07", Name: "DoUpdates, same values", Code: `db.Clauses(byID("status")).Create(&Account{ID: 1, Status: "new", Age: 99})`, prepare: one(),
			Expect: none(unchanged),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "new", Age: 99}
				return wrote(db.Clauses(onConflict("status")).Create(&a), &a)
			},
		},
		{
			ID: "U08", Name: "DoUpdates, batch", Code: `db.Clauses(byID("status")).Create(&[]Account{{ID: 3}, {ID: 1, Status: "s"}, {ID: 2, Status: "new"}})`, prepare: two(),
			Expect: expect(upserted("account", "3"), x),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 3}, {ID: 1, Status: "s"}, {ID: 2, Status: "new"}}
				return wrote(db.Clauses(onConflict("status")).Create(&all), &all)
			},
		},
		{
			ID: "U08", Name: "DoUpdates, batch, some keys set", Code: `db.Clauses(byID("status")).Create(&[]Account{{ID: 1, Status: "s"}, {Status: "s"}, {ID: 3, Status: "s"}})`, prepare: one(),
			Expect: expect(x, created("account", "*"), upserted("account", "3")).except(mixed, MySQL),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 1, Status: "s"}, {Status: "s"}, {ID: 3, Status: "s"}}
				return wrote(db.Clauses(onConflict("status")).Create(&all), &all)
			},
		},
		{
			ID: "U09", Name: "DoUpdates, condition fails", Code: `db.Clauses(clause.OnConflict{Columns: id, DoUpdates: status, Where: where("1 = 0")}).Create(&Account{ID: 1, Status: "s"})`, prepare: one(),
			Expect: none("the condition fails").except(expect(x.with("Status", "s")), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "s"}
				return wrote(db.Clauses(where("1 = 0")).Create(&a), &a)
			},
		},
		{
			ID: "U09", Name: "DoUpdates, condition holds", Code: `db.Clauses(clause.OnConflict{Columns: id, DoUpdates: status, Where: where("accounts.age = 7")}).Create(&Account{ID: 1, Status: "s"})`, prepare: one(),
			Expect: expect(x.with("Status", "s")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Status: "s"}
				return wrote(db.Clauses(where("accounts.age = 7")).Create(&a), &a)
			},
		},
		{
			ID: "U09", Name: "other target, new", Code: `db.Clauses(byEmail("name")).Create(&Member{Email: "f", Name: "n"})`, prepare: e,
			Expect: expect(upserted("member", "#1")),
			write: func(db *gorm.DB) outcome {
				m := member{Email: "f", Name: "n"}
				return wrote(db.Clauses(byEmail).Create(&m), &m)
			},
		},
		{
			ID: "U09", Name: "other target, there", Code: `db.Clauses(byEmail("name")).Create(&Member{Email: "e", Name: "n"})`, prepare: e,
			Expect: expect(upserted("member", "1").with("Name", "n")),
			write: func(db *gorm.DB) outcome {
				m := member{Email: "e", Name: "n"}
				return wrote(db.Clauses(byEmail).Create(&m), &m)
			},
		},
		{
			ID: "U09", Name: "other target, there under another key", Code: `db.Clauses(byEmail("name")).Create(&Member{ID: 2, Email: "e", Name: "n"})`, prepare: e,
			Expect: expect(upserted("member", "1").with("Name", "n")),
			write: func(db *gorm.DB) outcome {
				m := member{ID: 2, Email: "e", Name: "n"}
				return wrote(db.Clauses(byEmail).Create(&m), &m)
			},
		},
		{
			ID: "U09", Name: "other target, batch", Code: `db.Clauses(byEmail("name")).Create(&[]Member{{Email: "f"}, {Email: "e", Name: "n"}})`, prepare: e,
			Expect: expect(upserted("member", "*").with("Email", "f"), upserted("member", "1").with("Name", "n")),
			write: func(db *gorm.DB) outcome {
				all := []member{{Email: "f"}, {Email: "e", Name: "n"}}
				return wrote(db.Clauses(byEmail).Create(&all), &all)
			},
		},
		{
			ID: "U09", Name: "changes the key", Code: `db.Clauses(clause.OnConflict{Columns: id, DoUpdates: clause.Assignments(map[string]any{"id": 9})}).Create(&Account{ID: 1})`, prepare: one(),
			Expect: refused("an upsert that changes the key loses the old one"),
			write: func(db *gorm.DB) outcome {
				c := onConflict()
				c.DoUpdates = clause.Assignments(map[string]any{"id": 9})
				return wrote(db.Clauses(c).Create(&account{ID: 1}))
			},
		},
		{
			ID: "U10", Name: "UpdateAll, there", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Account{ID: 1, Name: "u", Grade: "z"})`, prepare: two(),
			Expect: expect(x.with("Name", "u").with("Grade", "a")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1, Name: "u", Grade: "z"}
				return wrote(db.Clauses(all).Create(&a), &a)
			},
		},
		{
			ID: "U10", Name: "UpdateAll, there and the same", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Seat{Tenant: 1, No: "a", Name: "n"})`, prepare: []any{&seat{Tenant: 1, No: "a", Name: "n"}},
			Expect: expect(upserted("seat", "1|a")).except(none(unchanged), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "a", Name: "n"}
				return wrote(db.Clauses(all).Create(&s), &s)
			},
		},
		{
			ID: "U10", Name: "UpdateAll, softly deleted", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Paper{ID: id, Name: "back"})`, prepare: gone(),
			Expect: expect(upserted("paper", id(1).String()).with("Name", "back")),
			write: func(db *gorm.DB) outcome {
				p := paper{ID: id(1), Name: "back"}
				return wrote(db.Clauses(all).Create(&p), &p)
			},
		},
		{
			ID: "U10", Name: "UpdateAll, nothing but a key", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&[]Tag{{Name: "t"}, {Name: "u"}})`, prepare: []any{&tag{Name: "t"}},
			Expect: expect(created("tag", "u")), // GORM makes DO NOTHING of it
			write: func(db *gorm.DB) outcome {
				all := []tag{{Name: "t"}, {Name: "u"}}
				return wrote(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&all), &all)
			},
		},
		{
			ID: "U10", Name: "UpdateAll, conflict in another index", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Member{ID: 2, Email: "e", Name: "n"})`, prepare: e,
			Expect: fails("the database: duplicate key").except(expect(upserted("member", "1").with("Name", "n")), MySQL, MariaDB),
			write: func(db *gorm.DB) outcome {
				m := member{ID: 2, Email: "e", Name: "n"}
				return wrote(db.Clauses(all).Create(&m), &m)
			},
		},
		{
			ID: "U11", Name: "Save slice", Code: `db.Save(&[]Account{{ID: 2, Name: "t"}, {ID: 1, Name: "s"}})`, prepare: one(),
			Expect: expect(upserted("account", "2"), x.with("Name", "s")),
			write: func(db *gorm.DB) outcome {
				all := []account{{ID: 2, Name: "t"}, {ID: 1, Name: "s"}}
				return wrote(db.Save(&all), &all)
			},
		},
		{
			ID: "U11", Name: "Save slice without keys", Code: `db.Save(&[]Account{{Name: "s"}, {Name: "t"}})`,
			Expect: expect(created("account", "#1"), created("account", "#2")).except(refused(increment), Increment),
			write: func(db *gorm.DB) outcome {
				all := []account{{Name: "s"}, {Name: "t"}}
				return wrote(db.Save(&all), &all)
			},
		},
		{
			ID: "U12", Name: "UpdateAll, key of the database", Code: `db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Account{Name: "u"})`,
			Expect: expect(created("account", "#1")),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "u"}
				return wrote(db.Clauses(all).Create(&a), &a)
			},
		},
	}
}
