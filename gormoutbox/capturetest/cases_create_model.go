package capturetest

import (
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/schema"
)

// createModelCases are creates of models with something special.
func createModelCases() []Case {
	nick := "n"
	at := clock()
	return []Case{
		{
			ID: "C21", Name: "hook makes the key", Code: `db.Create(&Ticket{State: "new"})`,
			Expect: expect(created("ticket", "made")),
			write:  func(db *gorm.DB) outcome { k := ticket{State: "new"}; return wrote(db.Create(&k), &k) },
		},
		{
			ID: "C21", Name: "SkipHooks, nobody makes the key", Code: `db.Session(&gorm.Session{SkipHooks: true}).Create(&Ticket{State: "new"})`,
			Expect: refused("the key is zero"),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Session(&gorm.Session{SkipHooks: true}).Create(&ticket{State: "new"}))
			},
		},
		{
			ID: "C21", Name: "zero key of a client", Code: `db.Create(&[]Order{{ID: id}, {}})`,
			Expect: refused("the key is zero"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(&[]order{{ID: id(1)}, {}})) },
		},
		{
			ID: "C22", Name: "key by a default of the database", Code: `db.Create(&Made{Name: "a"})`,
			Expect: expect(created("made", "made").with("Name", "a")).except(refused("the driver does not return the key"), MySQL),
			write: func(db *gorm.DB) outcome {
				m := made{Name: "a"}
				return wrote(db.Create(&m), &m)
			},
		},
		{
			ID: "C23", Name: "driver without RETURNING", Code: `db.Create(&Member{Email: "e"})`, world: withoutReturning(),
			Expect: expect(created("member", "#1")).except(refused("nobody tells the key"), Postgres, SQLite),
			write:  func(db *gorm.DB) outcome { m := member{Email: "e"}; return wrote(db.Create(&m), &m) },
		},
		{
			ID: "C23", Name: "driver without RETURNING, key of the client", Code: `db.Create(&Member{ID: 7, Email: "e"})`, world: withoutReturning(),
			Expect: expect(created("member", "7")).except(refused("GORM asks for a key all the same, and fails when the row is written"), Postgres),
			write: func(db *gorm.DB) outcome {
				m := member{ID: 7, Email: "e"}
				return wrote(db.Create(&m), &m)
			},
		},
		{
			ID: "C23", Name: "driver without RETURNING, key without default", Code: `db.Create(&Tag{Name: "t"})`, world: withoutReturning(),
			Expect: expect(created("tag", "t")),
			write:  func(db *gorm.DB) outcome { g := tag{Name: "t"}; return wrote(db.Create(&g), &g) },
		},
		{
			ID: "C24", Name: "composite key", Code: `db.Create(&Seat{Tenant: 1, No: "a"})`,
			Expect: expect(created("seat", "1|a")),
			write:  func(db *gorm.DB) outcome { s := seat{Tenant: 1, No: "a"}; return wrote(db.Create(&s), &s) },
		},
		{
			ID: "C24", Name: "composite key, partly zero", Code: `db.Create(&Seat{No: "a"})`,
			Expect: refused("a part of the key is zero"),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(&seat{No: "a"})) },
		},
		{
			ID: "C25", Name: "no primary key", Code: `db.Create(&Keyless{Name: "a"})`,
			Expect: Expectations{{Result: Misconfigured, Why: "rows without a key can't be told apart"}},
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(&keyless{Name: "a"})) },
		},
		{
			ID: "C26", Name: "embedded struct, prefix, pointer", Code: `db.Create(&Site{Home: Address{City: "x", Zip: "1"}, Hidden: "h", Ignored: "i", Nick: &nick})`,
			Expect: expect(created("site", "#1").with("Nick", "n")),
			write: func(db *gorm.DB) outcome {
				s := site{Home: address{City: "x", Zip: "1"}, Hidden: "h", Ignored: "i", Nick: &nick}
				return wrote(db.Create(&s), &s)
			},
		},
		{
			ID: "C27", Name: "serializer", Code: `db.Create(&Account{Tags: []string{"x", "y"}})`,
			Expect: expect(created("account", "#1").with("Tags", []any{"x", "y"})),
			write:  func(db *gorm.DB) outcome { a := account{Tags: []string{"x", "y"}}; return wrote(db.Create(&a), &a) },
		},
		{
			ID: "C27", Name: "types", Code: `db.Create(&Order{ID: id, Amount: 1.5, Paid: true, PaidAt: &at, Raw: []byte{0, 255}, Card: "c"})`,
			Expect: expect(created("order", id(1).String()).with("Amount", "1.5").with("Raw", "AP8=")),
			write: func(db *gorm.DB) outcome {
				o := order{ID: id(1), Amount: 1.5, Paid: true, PaidAt: &at, Raw: []byte{0, 255}, Card: "c"}
				return wrote(db.Create(&o), &o)
			},
		},
		{
			ID: "C27", Name: "nulls", Code: `db.Create(&Order{ID: id})`,
			Expect: expect(created("order", id(1).String()).with("PaidAt", nil)),
			write:  func(db *gorm.DB) outcome { o := order{ID: id(1)}; return wrote(db.Create(&o), &o) },
		},
		{
			ID: "C28", Name: "schema-qualified table", Code: `db.Create(&[]Seat{{Tenant: 1, No: "a"}}) // TableName is "other.seats"`, world: qualified(),
			Expect: expect(created("seat", "1|a")),
			write:  func(db *gorm.DB) outcome { all := []seat{{Tenant: 1, No: "a"}}; return wrote(db.Create(&all), &all) },
		},
		{
			ID: "C28", Name: "schema-qualified table, save, update and delete", Code: `db.Save(&s); db.Model(&s).Update("name", "n"); db.Where("no = ?", "a").Delete(&Seat{})`, world: qualified(),
			Expect: expect(upserted("seat", "1|a"), updated("seat", "1|a"), deleted("seat", "1|a")),
			write: func(db *gorm.DB) outcome {
				s := seat{Tenant: 1, No: "a"}
				if err := db.Save(&s).Error; err != nil {
					return did(err)
				}
				if err := db.Model(&s).Update("name", "n").Error; err != nil {
					return did(err)
				}
				return wrote(db.Where("no = ?", "a").Delete(&seat{}), &s)
			},
		},
		{
			ID: "C29", Name: "another table", Code: `db.Table("accounts_2026").Create(&Account{Name: "a"})`,
			Expect: expect(created("account", "#1")),
			write:  func(db *gorm.DB) outcome { a := account{Name: "a"}; return wrote(db.Table(shard).Create(&a), &a) },
		},
		{
			ID: "C29", Name: "another table by a scope", Code: `db.Scopes(inShard).Create(&Account{Name: "a"})`,
			Expect: expect(created("account", "#1")),
			write: func(db *gorm.DB) outcome {
				a := account{Name: "a"}
				inShard := func(tx *gorm.DB) *gorm.DB { return tx.Table(shard) }
				return wrote(db.Scopes(inShard).Create(&a), &a)
			},
		},
		{
			ID: "C29", Name: "another table, update and delete", Code: `s := db.Table("accounts_2026"); s.Model(&a).Update("age", 8); s.Where("age = ?", 8).Delete(&Account{})`,
			setUp:  func(db *gorm.DB) error { return db.Table(shard).Create(&account{ID: 1, Age: 7}).Error },
			Expect: expect(updated("account", "1").with("Age", 8), deleted("account", "1").with("Age", 8)),
			write: func(db *gorm.DB) outcome {
				a := account{ID: 1}
				if err := db.Table(shard).Model(&a).Update("age", 8).Error; err != nil {
					return did(err)
				}
				return wrote(db.Table(shard).Where("age = ?", 8).Delete(&account{}), &a)
			},
		},
		{
			ID: "C30", Name: "naming strategy", Code: `db.Create(&Seat{Tenant: 1, No: "a"}) // NamingStrategy{TablePrefix: "app_", SingularTable: true}`, world: prefixed(),
			Expect: expect(created("seat", "1|a")),
			write:  func(db *gorm.DB) outcome { s := seat{Tenant: 1, No: "a"}; return wrote(db.Create(&s), &s) },
		},
		{
			ID: "C30", Name: "naming strategy, bypass", Code: `db.Table("app_seat").Create(map[string]any{"tenant": 1, "no": "a"})`, world: prefixed(),
			Expect: refused("the write bypasses the model of the table"),
			write: func(db *gorm.DB) outcome {
				return wrote(db.Table("app_seat").Create(map[string]any{"tenant": 1, "no": "a"}))
			},
		},
		{
			ID: "C37", Name: "reserved words", Code: `db.Create(&Reserved{Key: 1, Order: "o", Select: 2})`,
			Expect: expect(created("reserved", "1")),
			write: func(db *gorm.DB) outcome {
				r := reserved{Key: 1, Order: "o", Select: 2}
				return wrote(db.Create(&r), &r)
			},
		},
		{
			ID: "C37", Name: "nothing but a key", Code: `db.Create(&Tag{Name: "t"})`,
			Expect: expect(created("tag", "t")),
			write:  func(db *gorm.DB) outcome { g := tag{Name: "t"}; return wrote(db.Create(&g), &g) },
		},
		{
			ID: "C37", Name: "deleted from the beginning", Code: `db.Create(&Paper{ID: id, DeletedAt: gorm.DeletedAt{Time: at, Valid: true}})`,
			Expect: expect(created("paper", id(1).String())),
			write: func(db *gorm.DB) outcome {
				p := paper{ID: id(1), DeletedAt: gorm.DeletedAt{Time: at.Truncate(time.Second), Valid: true}}
				return wrote(db.Create(&p), &p)
			},
		},
	}
}

// withoutReturning is a driver that was told not to use RETURNING, PostgreSQL's WithoutReturning for example.
func withoutReturning() *world {
	return &world{
		tables: []table{tableOf("member", func(m *member) string { return fmt.Sprint(m.ID) }), tableOf("tag", func(g *tag) string { return g.Name })},
		configure: func(db *gorm.DB) error {
			clauses := []string{"INSERT", "VALUES", "ON CONFLICT"}
			db.Callback().Create().Clauses = clauses
			return db.Callback().Create().Replace("gorm:create", callbacks.Create(&callbacks.Config{CreateClauses: clauses}))
		},
	}
}

func seatTable() table {
	return tableOf("seat", func(s *seat) string { return fmt.Sprintf("%d|%s", s.Tenant, s.No) })
}

const createSeats = "CREATE TABLE seats (tenant INT, no VARCHAR(20), name VARCHAR(50), PRIMARY KEY (tenant, no))"

// qualified has the schema's name in all tables of models.
func qualified() *world {
	return &world{
		tables: []table{seatTable()},
		configure: func(db *gorm.DB) error {
			current := "main"
			query := map[string]string{"postgres": "SELECT current_schema()", "mysql": "SELECT database()"}[db.Name()]
			if query != "" {
				if err := db.Raw(query).Scan(&current).Error; err != nil {
					return err
				}
			}
			db.NamingStrategy = schema.NamingStrategy{TablePrefix: current + "."}
			return nil
		},
		create: func(db *gorm.DB) error { return db.Exec(createSeats).Error },
	}
}

// prefixed has a naming strategy.
func prefixed() *world {
	return &world{
		tables: []table{seatTable()},
		configure: func(db *gorm.DB) error {
			db.NamingStrategy = schema.NamingStrategy{TablePrefix: "app_", SingularTable: true}
			return nil
		},
	}
}
