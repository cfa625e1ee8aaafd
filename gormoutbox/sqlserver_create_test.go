package gormoutbox_test

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Draft has a column beside the key that the database makes.
type Draft struct {
	_     gormoutbox.Emit `outbox:"aggregate=draft"`
	ID    uint
	Name  string
	State string `gorm:"default:(-)"`
}

// Ledger has a number as its key whose type is given.
type Ledger struct {
	_    gormoutbox.Emit `outbox:"aggregate=ledger"`
	ID   int64           `gorm:"type:bigint;primaryKey"`
	Name string
}

// Invoice is in a schema of its own.
type Invoice struct {
	_    gormoutbox.Emit `outbox:"aggregate=invoice"`
	ID   int             `gorm:"autoIncrement:false"`
	Text string
}

// TableName is for GORM.
func (Invoice) TableName() string { return "sales.invoices" }

// Keyless has no primary key.
type Keyless struct {
	_    gormoutbox.Emit `outbox:"aggregate=keyless"`
	Name string
}

// The rows that are answered hold other values than memory does.
func msAccount(id uint) *Account {
	return &Account{ID: id, Name: "of the row", Age: 70, Status: "row", Score: 5, Tags: []string{"t"}, CreatedAt: msNow().AddDate(1, 0, 0)}
}

var msID = uuid.MustParse("0190b2a0-0000-7000-8000-000000000001")

func msOrder() *Order { return &Order{ID: msID, Status: "of the row", Amount: 77, Card: "secret"} }

func msCreatePaths() []msPath {
	ctx := context.Background()
	a1, a2, a3, a7 := msAccount(1), msAccount(2), msAccount(3), msAccount(7)
	one := msTx(msInsert(a1), msBack(a1), msCreated(a1))
	two := msTx(msInsert(a1, a2), msBack(a1, a2), msCreated(a1, a2))
	batches := msTx(msInsert(a1, a2), msBack(a1, a2), msCreated(a1, a2), msInsert(a3), msBack(a3), msCreated(a3))
	order := msTx(msInsert(msOrder()), msBack(msOrder()), msCreated(msOrder()))
	seat := &Seat{Tenant: 1, No: "a", Name: "of the row"}
	site := &Site{ID: 4, Home: Address{City: "of the row", Zip: "z"}, Nick: new("n")}
	made := []any{&Made{ID: "k1", Name: "row 1"}, &Made{ID: "k2", Name: "row 2"}}
	draft := &Draft{ID: 9, Name: "of the row", State: "s"}
	invoice := &Invoice{ID: 6, Text: "of the row"}
	alice := &Person{ID: 3, Name: "of the row"}
	taken := errors.New("mssql: Violation of PRIMARY KEY constraint")
	create := func(value any) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome { return msDid(g.Create(value), value) }
	}
	nothing := msUndone()
	anything := []any{&Account{}, &Order{}}
	return []msPath{
		{id: "C01 Create", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Create(&a), a)
		}},
		{id: "C01 Create with key", steps: msTx(msInsert(a7), msBack(a7), msCreated(a7)), run: func(g *gorm.DB) msOutcome {
			a := Account{ID: 7, Name: "memory"}
			return msDid(g.Create(&a), a)
		}},
		{id: "C02 Create by value", steps: order, run: create(Order{ID: msID, Status: "memory"})},
		{id: "C03 Create by value, key of the database", steps: nothing, refused: true, run: create(Account{Name: "memory"})},
		{id: "C04 Create slice", steps: two, run: func(g *gorm.DB) msOutcome {
			all := []Account{{Name: "memory"}, {Name: "memory"}}
			return msDid(g.Create(&all), all)
		}},
		{id: "C04 Create slice, all keys", steps: two, run: func(g *gorm.DB) msOutcome {
			all := []Account{{ID: 1, Name: "memory"}, {ID: 2, Name: "memory"}}
			return msDid(g.Create(&all), all)
		}},
		{id: "C04 Create slice, some keys", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Create(&[]Account{{Name: "memory"}, {ID: 9000}}), nil)
		}},
		{id: "C05 Create slice by value", steps: two, run: func(g *gorm.DB) msOutcome {
			all := []Account{{Name: "memory"}, {Name: "memory"}}
			return msDid(g.Create(all), all)
		}},
		{id: "C06 Create pointers", steps: two, run: func(g *gorm.DB) msOutcome {
			all := []*Account{{Name: "memory"}, {Name: "memory"}}
			return msDid(g.Create(all), all)
		}},
		{id: "C06 Create pointers, one nil", steps: nothing, fails: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Create([]*Account{{Name: "memory"}, nil}), nil)
		}},
		{id: "C07 Create array", steps: two, run: func(g *gorm.DB) msOutcome {
			all := [2]Account{{Name: "memory"}, {Name: "memory"}}
			return msDid(g.Create(&all), all)
		}},
		{id: "C08 Create empty", steps: nothing, fails: true, run: func(g *gorm.DB) msOutcome { return msDid(g.Create(&[]Account{}), nil) }},
		{id: "C09 Create anything", fails: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Create(anything), nil)
		}},
		{id: "C10 Create map", steps: one, run: func(g *gorm.DB) msOutcome {
			m := map[string]any{"name": "memory"}
			return msDid(g.Model(&Account{}).Create(m), m)
		}},
		{id: "C10 Create map with key", steps: one, run: func(g *gorm.DB) msOutcome {
			m := map[string]any{"id": 1, "name": "memory"}
			return msDid(g.Model(&Account{}).Create(m), m)
		}},
		{id: "C10 Create map with an expression as key", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Account{}).Create(map[string]any{"id": gorm.Expr("NEXT VALUE FOR ids")}), nil)
		}},
		{id: "C11 Create map pointer", steps: one, run: func(g *gorm.DB) msOutcome {
			m := map[string]any{"name": "memory"}
			return msDid(g.Model(&Account{}).Create(&m), m)
		}},
		// GORM itself would panic here, with the transaction open.
		{id: "C12 Create maps", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Account{}).Create([]map[string]any{{"name": "memory"}}), nil)
		}},
		// The driver appends the keys to the list, as maps of their own.
		{id: "C13 Create maps pointer", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Account{}).Create(&[]map[string]any{{"name": "memory"}, {"name": "memory"}}), nil)
		}},
		{id: "C13 Create maps pointer, keys of the client", steps: order, run: func(g *gorm.DB) msOutcome {
			maps := []map[string]any{{"id": msID, "status": "memory"}}
			return msDid(g.Model(&Order{}).Create(&maps), maps)
		}},
		{id: "C14 Table, map", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Table("accounts").Create(map[string]any{"name": "memory"}), nil)
		}},
		{id: "C15 Select", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory", Age: 9}
			return msDid(g.Select("Name").Create(&a), a)
		}},
		{id: "C15 Select without the key that is set", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Select("Name").Create(&Account{ID: 5, Name: "memory"}), nil)
		}},
		{id: "C16 Omit", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory", Age: 9}
			return msDid(g.Omit("Age").Create(&a), a)
		}},
		{id: "C17 Omit associations", steps: msTx(msInsert(alice), msBack(alice), msCreated(alice)), run: func(g *gorm.DB) msOutcome {
			p := Person{Name: "memory", Pets: []Pet{{Name: "p"}}}
			return msDid(g.Omit(clause.Associations).Create(&p), p)
		}},
		{id: "C18 CreateInBatches", steps: batches, run: func(g *gorm.DB) msOutcome {
			all := []Account{{Name: "memory"}, {Name: "memory"}, {Name: "memory"}}
			return msDid(g.CreateInBatches(&all, 2), all)
		}},
		{id: "C19 CreateBatchSize", steps: batches, run: func(g *gorm.DB) msOutcome {
			all := []Account{{Name: "memory"}, {Name: "memory"}, {Name: "memory"}}
			return msDid(g.Session(&gorm.Session{CreateBatchSize: 2}).Create(&all), all)
		}},
		{id: "C20 duplicate key", fails: true, steps: msUndone(msStep{token: "INSERT accounts", err: taken}), run: func(g *gorm.DB) msOutcome {
			a := Account{ID: 5}
			return msDid(g.Create(&a), a)
		}},
		{id: "C21 zero key of a client", steps: nothing, refused: true, run: create(&Order{})},
		{id: "C22 key by a default", steps: msTx(msInsert(made...), msBack(made...), msCreated(made...)), run: func(g *gorm.DB) msOutcome {
			all := []Made{{Name: "memory"}, {Name: "memory"}}
			return msDid(g.Create(&all), all)
		}},
		// The driver has no RETURNING clause for INSERT: that of the user is not sent, and the key is returned all the same.
		{id: "C23 Returning without the key", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Clauses(clause.Returning{Columns: []clause.Column{{Name: "score"}}}).Create(&a), a)
		}},
		{id: "C24 composite key", steps: msTx(msInsert(seat), msBack(seat), msCreated(seat)), run: func(g *gorm.DB) msOutcome {
			s := Seat{Tenant: 1, No: "a", Name: "memory"}
			return msDid(g.Create(&s), s)
		}},
		{id: "C24 composite key, partly zero", steps: nothing, refused: true, run: create(&Seat{No: "a"})},
		{id: "C25 no key", steps: nothing, mistaken: true, run: create(&Keyless{Name: "memory"})},
		{id: "C26 embedded", steps: msTx(msInsert(site), msBack(site), msCreated(site)), run: func(g *gorm.DB) msOutcome {
			s := Site{Home: Address{City: "memory", Zip: "1"}, Hidden: "h", Ignored: "i"}
			return msDid(g.Create(&s), s)
		}},
		{id: "C27 serializer", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Tags: []string{"memory"}}
			return msDid(g.Create(&a), a)
		}},
		{id: "C28 table in a schema", steps: msRenamed("invoices", msTx(msInsert(invoice), msBack(invoice), msCreated(invoice))...), run: func(g *gorm.DB) msOutcome {
			i := Invoice{ID: 6, Text: "memory"}
			return msDid(g.Create(&i), i)
		}},
		{id: "C28 another table in a schema", steps: order, run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID}
			return msDid(g.Table("sales.orders").Create(&o), o)
		}},
		{id: "C29 shard", steps: msRenamed("orders_2026", order...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID}
			return msDid(g.Table("orders_2026").Create(&o), o)
		}},
		{id: "C29 shard by a scope", steps: msRenamed("orders_2026", order...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID}
			return msDid(g.Scopes(func(tx *gorm.DB) *gorm.DB { return tx.Table("orders_2026") }).Create(&o), o)
		}},
		{id: "C30 naming strategy", names: schema.NamingStrategy{TablePrefix: "app_"}, steps: msRenamed("app_orders", order...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID}
			return msDid(g.Create(&o), o)
		}},
		{id: "C31 DTO on the table", steps: nothing, refused: true, run: create(&AccountDTO{Name: "memory"})},
		{id: "C31 Model and DTO", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Account{}).Create(&AccountDTO{Name: "memory"}), nil)
		}},
		{id: "C32 generics", steps: one, run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msOutcome{value: &a, err: gorm.G[Account](g).Create(ctx, &a)}
		}},
		{id: "C32 generics batches", steps: batches, run: func(g *gorm.DB) msOutcome {
			all := []Account{{Name: "memory"}, {Name: "memory"}, {Name: "memory"}}
			return msOutcome{value: &all, err: gorm.G[Account](g).CreateInBatches(ctx, &all, 2)}
		}},
		{id: "C33 generics set", steps: one, run: func(g *gorm.DB) msOutcome {
			return msOutcome{err: gorm.G[Account](g).Set(clause.Assignment{Column: clause.Column{Name: "name"}, Value: "memory"}).Create(ctx)}
		}},
		{id: "C34 DryRun", steps: msTx(), run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Session(&gorm.Session{DryRun: true}).Create(&a), a)
		}},
		{id: "C34 ToSQL", run: func(g *gorm.DB) msOutcome {
			return msOutcome{value: g.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Create(&Account{Name: "memory"}) })}
		}},
		{id: "C35 batch, one sets a column of the database", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Create(&[]Draft{{Name: "memory", State: "s"}, {Name: "memory"}}), nil)
		}},
		// The driver passes over the value and leaves its key zero, also where it is the only one.
		{id: "C35 batch of one that sets a column of the database", steps: nothing, refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Create(&[]Draft{{Name: "memory", State: "s"}}), nil)
		}},
		{id: "C35 one value that sets a column of the database", steps: msTx(msInsert(draft), msBack(draft), msCreated(draft)), run: func(g *gorm.DB) msOutcome {
			d := Draft{Name: "memory", State: "memory"}
			return msDid(g.Create(&d), d)
		}},
	}
}

func msUpsertPaths() []msPath {
	nothing := clause.OnConflict{DoNothing: true}
	status := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"status"})}
	all := clause.OnConflict{UpdateAll: true}
	upsert := func(oc clause.OnConflict, value any) func(*gorm.DB) msOutcome {
		return func(g *gorm.DB) msOutcome { return msDid(g.Clauses(oc).Create(value), nil) }
	}
	was, now := msAccount(1), msAccount(1)
	now.Status = "changed"
	account := func() *Account { return &Account{ID: 1, Name: "memory", Status: "memory"} }
	old, changed := msOrder(), msOrder()
	changed.Status = "changed"
	refusedIdentity := msUndone(msHold(&Account{}))
	wide := &Ledger{ID: 1, Name: "of the row"}
	return []msPath{
		{id: "U01 DoNothing, new", steps: msTx(msMerged(&Order{}, nil, []any{old}, []any{old}, msCreated(old))...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID, Status: "memory"}
			return msDid(g.Clauses(nothing).Create(&o), o)
		}},
		// MERGE would insert it under another key.
		{id: "U01 DoNothing, new, key of the database that is set", steps: refusedIdentity, refused: true, run: upsert(nothing, account())},
		{id: "U01 DoNothing, new, key of the database that is set, with a type", steps: msUndone(msHold(&Ledger{})), refused: true, run: upsert(nothing, &Ledger{ID: 5})},
		{id: "U01 DoNothing, new, key of the database", steps: msTx(msInsert(was), msBack(was), msCreated(was)), run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Clauses(nothing).Create(&a), a)
		}},
		{id: "U02 DoNothing, there", steps: msTx(msHold(&Account{}, was), msMerge(&Account{})), run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Clauses(nothing).Create(a), a)
		}},
		{id: "U03 DoNothing, there by another index", fails: true, steps: msUndone(msStep{token: "INSERT members", err: errors.New("mssql: duplicate")}), run: func(g *gorm.DB) msOutcome {
			m := Member{Email: "e"}
			return msDid(g.Clauses(nothing).Create(&m), m)
		}},
		{
			id: "U04 DoNothing batch", steps: msTx(msMerged(&Tag{}, []any{&Tag{Name: "t"}}, []any{&Tag{Name: "u"}}, []any{&Tag{Name: "t"}, &Tag{Name: "u"}}, msCreated(&Tag{Name: "u"}))...),
			run: func(g *gorm.DB) msOutcome {
				tags := []Tag{{Name: "t"}, {Name: "u"}}
				return msDid(g.Clauses(nothing).Create(&tags), tags)
			},
		},
		{id: "U05 DoUpdates, new", steps: msTx(msMerged(&Order{}, nil, []any{old}, []any{old}, msUpserted(old))...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID, Status: "memory"}
			return msDid(g.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"status"})}).Create(&o), o)
		}},
		{id: "U05 DoUpdates, new, key of the database that is set", steps: refusedIdentity, refused: true, run: upsert(status, account())},
		{id: "U05 DoUpdates, new, key of the database", steps: msTx(msInsert(was), msBack(was), msCreated(was)), run: func(g *gorm.DB) msOutcome {
			a := Account{Name: "memory"}
			return msDid(g.Clauses(status).Create(&a), a)
		}},
		{id: "U06 DoUpdates, there", steps: msTx(msMerged(&Account{}, []any{was}, []any{now}, []any{now}, msUpserted(now))...), run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Clauses(status).Create(a), a)
		}},
		{id: "U07 DoUpdates, same values", steps: msTx(msMerged(&Account{}, []any{was}, []any{was}, []any{was})...), run: func(g *gorm.DB) msOutcome {
			a := account()
			return msDid(g.Clauses(status).Create(a), a)
		}},
		{id: "U08 DoUpdates batch mixed", steps: msUndone(), refused: true, run: upsert(status, &[]Account{{ID: 1}, {Name: "memory"}})},
		{id: "U09 DoUpdates where", steps: msTx(msMerged(&Account{}, []any{was}, []any{now}, []any{now}, msUpserted(now))...), run: func(g *gorm.DB) msOutcome {
			oc := status
			oc.Where = clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "1 = 0"}}} // the driver leaves it out
			a := account()
			return msDid(g.Clauses(oc).Create(a), a)
		}},
		{id: "U09 changes the key", steps: msUndone(), refused: true, run: upsert(clause.OnConflict{
			Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.Assignments(map[string]any{"id": msID}),
		}, &Order{ID: msID})},
		{id: "U10 UpdateAll", steps: msTx(msMerged(&Order{}, []any{old}, []any{changed}, []any{changed}, msUpserted(changed))...), run: func(g *gorm.DB) msOutcome {
			o := Order{ID: msID, Status: "memory"}
			return msDid(g.Clauses(all).Create(&o), o)
		}},
		{id: "U11 Save slice", steps: msTx(msMerged(&Account{}, []any{was}, []any{now}, []any{now}, msUpserted(now))...), run: func(g *gorm.DB) msOutcome {
			a := []Account{*account()}
			return msDid(g.Save(&a), a)
		}},
		{
			id: "U11 Save slice without keys", steps: msTx(msInsert(msAccount(4), msAccount(5)), msBack(msAccount(4), msAccount(5)), msCreated(msAccount(4), msAccount(5))),
			run: func(g *gorm.DB) msOutcome {
				a := []Account{{Name: "memory"}, {Name: "memory"}}
				return msDid(g.Save(&a), a)
			},
		},
		// The driver looks at the primary key alone, whatever the conflict's columns are.
		{id: "U12 other target", steps: msTx(msMerged(&Member{}, []any{&Member{ID: 2, Email: "e"}}, []any{&Member{ID: 2, Email: "e", Name: "row"}}, []any{&Member{ID: 2, Email: "e", Name: "row"}}, msUpserted(&Member{ID: 2, Email: "e", Name: "row"}))...), run: func(g *gorm.DB) msOutcome {
			m := Member{ID: 2, Email: "f", Name: "memory"}
			oc := clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}
			return msDid(g.Clauses(oc).Create(&m), m)
		}},
		{id: "U12 composite key", steps: msTx(msMerged(&Seat{}, nil, []any{&Seat{Tenant: 1, No: "a", Name: "row"}}, []any{&Seat{Tenant: 1, No: "a", Name: "row"}}, msUpserted(&Seat{Tenant: 1, No: "a", Name: "row"}))...), run: func(g *gorm.DB) msOutcome {
			s := Seat{Tenant: 1, No: "a", Name: "memory"}
			return msDid(g.Clauses(all).Create(&s), s)
		}},
		{id: "U12 map", steps: msUndone(), refused: true, run: func(g *gorm.DB) msOutcome {
			return msDid(g.Model(&Order{}).Clauses(all).Create(map[string]any{"id": msID, "status": "memory"}), nil)
		}},
		{id: "U12 key with a type, there", steps: msTx(msMerged(&Ledger{}, []any{&Ledger{ID: 1}}, []any{wide}, []any{wide}, msUpserted(wide))...), run: func(g *gorm.DB) msOutcome {
			w := Ledger{ID: 1, Name: "memory"}
			return msDid(g.Clauses(all).Create(&w), w)
		}},
	}
}
