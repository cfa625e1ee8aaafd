package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const (
	valueMoves   = "GORM can't put the key that the database makes into a value, and panics"
	increment    = "one statement has several rows, and the field's autoIncrementIncrement differs from the server's"
	lastInsertID = "the driver returns one key, and the others are guesses"
)

func createCases() []Case {
	ctx := context.Background()
	made1, made2, made3 := created("account", "#1"), created("account", "#2"), created("account", "#3")
	abc := func() []account { return []account{{Name: "a"}, {Name: "b"}, {Name: "c"}} }
	batches := expect(made1, made2, made3).except(refused(increment), Increment)
	return []Case{
		{
			ID: "C01", Name: "one", Code: `db.Create(&Account{Name: "a"})`, modes: []mode{skipTransaction, prepared, inSavepoint},
			Expect: expect(made1.with("Name", "a").with("Grade", "a")),
			write:  func(db *gorm.DB) outcome { a := account{Name: "a"}; return wrote(db.Create(&a), &a) },
		},
		{
			ID: "C01", Name: "one with its key", Code: `db.Create(&Account{ID: 7, Name: "a", Secret: "s"})`,
			Expect: expect(created("account", "7")),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 7, Name: "a", Secret: "s"}
				return wrote(db.Create(&a), &a)
			},
		},
		{
			ID: "C01", Name: "pointer to a pointer", Code: `p := &Account{Name: "a"}; db.Create(&p)`,
			Expect: expect(made1),
			write:  func(db *gorm.DB) outcome { a := &account{Name: "a"}; return wrote(db.Create(&a), &a) },
		},
		{
			ID: "C02", Name: "by value, key of the client", Code: `db.Create(Order{ID: id})`, modes: []mode{skipTransaction},
			Expect: expect(created("order", id(1).String())),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(order{ID: id(1), Status: "s"})) },
		},
		{
			ID: "C03", Name: "by value, key of the database", Code: `db.Create(Account{Name: "a"})`,
			Expect: refused(valueMoves),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(account{Name: "a"})) },
		},
		{
			ID: "C03", Name: "by value, key of the client, column of the database", Code: `db.Create(Account{ID: 7, Status: "s", Score: 1, CreatedAt: at})`,
			Expect: refused(valueMoves).except(expect(created("account", "7")), MySQL),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Create(account{ID: 7, Status: "s", Score: 1, CreatedAt: clock()}))
			},
		},
		{
			ID: "C04", Name: "slice", Code: `db.Create(&[]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}})`, modes: []mode{skipTransaction},
			Expect: batches,
			write:  func(db *gorm.DB) outcome { all := abc(); return wrote(db.Create(&all), &all) },
		},
		{
			ID: "C04", Name: "slice, all keys set", Code: `db.Create(&[]Account{{ID: 9}, {ID: 8}})`,
			Expect: expect(created("account", "9"), created("account", "8")),
			write:  func(db *gorm.DB) outcome { all := []account{{ID: 9}, {ID: 8}}; return wrote(db.Create(&all), &all) },
		},
		{
			ID: "C04", Name: "slice, some keys set", Code: `db.Create(&[]Account{{Name: "a"}, {ID: 8, Name: "b"}, {Name: "c"}})`,
			Expect: expect(made1.with("Name", "a"), created("account", "8").with("Name", "b"), made2.with("Name", "c")).
				except(refused(lastInsertID), MySQL),
			write: func(db *gorm.DB) outcome {
				all := []account{{Name: "a"}, {ID: 8, Name: "b"}, {Name: "c"}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "C05", Name: "slice by value", Code: `db.Create([]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}})`,
			Expect: batches,
			write:  func(db *gorm.DB) outcome { all := abc(); return wrote(db.Create(all), all) },
		},
		{
			ID: "C06", Name: "slice of pointers", Code: `db.Create([]*Account{{Name: "a"}, {Name: "b"}, {Name: "c"}})`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := []*account{{Name: "a"}, {Name: "b"}, {Name: "c"}}
				return wrote(db.Create(all), all)
			},
		},
		{
			ID: "C06", Name: "pointer to a slice of pointers", Code: `db.Create(&[]*Account{{Name: "a"}, {Name: "b"}, {Name: "c"}})`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := []*account{{Name: "a"}, {Name: "b"}, {Name: "c"}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "C06", Name: "slice with a nil pointer", Code: `db.Create([]*Account{{Name: "a"}, nil})`,
			Expect: fails("GORM: slice data is invalid"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create([]*account{{Name: "a"}, nil})) },
		},
		{
			ID: "C07", Name: "array", Code: `db.Create(&[3]Account{{Name: "a"}, {Name: "b"}, {Name: "c"}})`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := [3]account{{Name: "a"}, {Name: "b"}, {Name: "c"}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "C07", Name: "array by value, keys of the client", Code: `db.Create([2]Order{{ID: id1}, {ID: id2}})`,
			Expect: expect(created("order", id(1).String()), created("order", id(2).String())),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create([2]order{{ID: id(1)}, {ID: id(2)}})) },
		},
		{
			ID: "C07", Name: "array by value, keys of the database", Code: `db.Create([2]Account{{Name: "a"}, {Name: "b"}})`,
			Expect: refused(valueMoves),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create([2]account{{Name: "a"}, {Name: "b"}})) },
		},
		{
			ID: "C08", Name: "empty slice", Code: `db.Create(&[]Account{})`,
			Expect: fails("GORM: empty slice found"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(&[]account{})) },
		},
		{
			ID: "C09", Name: "slice of anything", Code: `db.Create([]any{&Account{}, &Order{}})`,
			Expect: fails("GORM: unsupported data type"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create([]any{&account{}, &order{}})) },
		},
		{
			ID: "C15", Name: "Select", Code: `db.Select("Name").Create(&Account{Name: "a", Age: 9})`,
			Expect: expect(made1.with("Age", 0).with("Score", 18).with("Status", "new")),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a", Age: 9}
				return wrote(db.Select("Name").Create(&a), &a)
			},
		},
		{
			ID: "C15", Name: "Select without the key that is set", Code: `db.Select("Name").Create(&Account{ID: 5, Name: "a"})`,
			Expect: expect(made1).except(refused("the key in memory is not the row's, and the driver's is lost"), MySQL),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 5, Name: "a"}
				return wrote(db.Select("Name").Create(&a), &a)
			},
		},
		{
			ID: "C16", Name: "Omit", Code: `db.Omit("Age").Create(&Account{Name: "a", Age: 9})`,
			Expect: expect(made1.with("Age", 0)),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a", Age: 9}
				return wrote(db.Omit("Age").Create(&a), &a)
			},
		},
		{
			ID: "C17", Name: "Omit associations", Code: `db.Omit(clause.Associations).Create(&Person{Name: "p", Pets: []Pet{{Name: "a"}}})`,
			Expect: expect(created("person", "#1")),
			write: func(db *gorm.DB) outcome {
				p := person{Name: "p", Pets: []pet{{Name: "a"}}}
				return wrote(db.Omit(clause.Associations).Create(&p), &p)
			},
		},
		{
			ID: "C18", Name: "CreateInBatches", Code: `db.CreateInBatches(&all, 2)`, modes: []mode{skipTransaction},
			Expect: batches,
			write:  func(db *gorm.DB) outcome { all := abc(); return wrote(db.CreateInBatches(&all, 2), &all) },
		},
		{
			ID: "C19", Name: "CreateBatchSize", Code: `db.Session(&gorm.Session{CreateBatchSize: 2}).Create(&all)`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := abc()
				return wrote(db.Session(&gorm.Session{CreateBatchSize: 2}).Create(&all), &all)
			},
		},
		{
			ID: "C20", Name: "duplicate key", Code: `db.Create(&Account{ID: 5})`, prepare: []any{&account{ID: 5}}, modes: []mode{skipTransaction},
			Expect: fails("the database: duplicate key"),
			write:  func(db *gorm.DB) outcome { a := account{ID: 5}; return wrote(db.Create(&a), &a) },
		},
		{
			ID: "C20", Name: "duplicate in another index", Code: `db.Create(&[]Member{{Email: "new"}, {Email: "e"}})`, prepare: []any{&member{ID: 5, Email: "e"}},
			Expect: fails("the database: duplicate key").except(refused(increment), Increment),
			write: func(db *gorm.DB) outcome {
				all := []member{{Email: "new"}, {Email: "e"}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "C32", Name: "generics", Code: `gorm.G[Account](db).Create(ctx, &Account{Name: "a"})`, modes: []mode{skipTransaction},
			Expect: expect(made1),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return did(gorm.G[account](db).Create(ctx, &a), &a)
			},
		},
		{
			ID: "C32", Name: "generics in batches", Code: `gorm.G[Account](db).CreateInBatches(ctx, &all, 2)`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := abc()
				return did(gorm.G[account](db).CreateInBatches(ctx, &all, 2), &all)
			},
		},
		{
			ID: "C34", Name: "DryRun", Code: `db.Session(&gorm.Session{DryRun: true}).Create(&Account{Name: "a"})`,
			Expect: none("nothing is written"),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Session(&gorm.Session{DryRun: true}).Create(&a), &a)
			},
		},
		{
			ID: "C34", Name: "ToSQL", Code: `db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&Account{Name: "a"}) })`,
			Expect: none("nothing is written"),
			write: func(db *gorm.DB) outcome {
				sql := db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&account{Name: "a"}) })
				return did(nil, &sql)
			},
		},
		{
			ID: "C35", Name: "slice, a default column set in one", Code: `db.Create(&[]Account{{Name: "a"}, {Name: "b", Grade: "z"}})`,
			Expect: expect(made1.with("Grade", "a"), made2.with("Grade", "z")).except(fails("the database: SQLite has no DEFAULT in VALUES"), SQLite).except(refused(increment), Increment),
			write: func(db *gorm.DB) outcome {
				all := []account{{Name: "a"}, {Name: "b", Grade: "z"}}
				return wrote(db.Create(&all), &all)
			},
		},
		{
			ID: "C38", Name: "one connection", Code: `db.Connection(func(tx *gorm.DB) error { return tx.Create(&Account{Name: "a"}).Error })`, modes: []mode{skipTransaction},
			Expect: expect(made1),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				if _, ok := db.Statement.ConnPool.(gorm.TxCommitter); ok {
					return wrote(db.Create(&a), &a) // a transaction has one already
				}
				return did(db.Connection(func(tx *gorm.DB) error { return tx.Create(&a).Error }), &a)
			},
		},
		{
			ID: "C36", Name: "Returning one column", Code: `db.Clauses(clause.Returning{Columns: []clause.Column{{Name: "score"}}}).Create(&Account{Name: "a"})`,
			Expect: refused("the returned columns do not tell the key").except(expect(made1), MySQL),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				return wrote(db.Clauses(clause.Returning{Columns: []clause.Column{{Name: "score"}}}).Create(&a), &a)
			},
		},
		{
			ID: "C36", Name: "Returning all", Code: `db.Clauses(clause.Returning{}).Create(&all)`,
			Expect: batches,
			write: func(db *gorm.DB) outcome {
				all := abc()
				return wrote(db.Clauses(clause.Returning{}).Create(&all), &all)
			},
		},
	}
}
