package capturetest

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// createMapCases are creates from maps, and those that bypass the model.
func createMapCases() []Case {
	ctx := context.Background()
	const bypass = "the write bypasses the model of the table"
	const mapsPanic = "GORM fails or panics when columns come back"
	one := func() map[string]any { return map[string]any{"name": "a"} }
	two := func() []map[string]any { return []map[string]any{{"name": "a"}, {"name": "b"}} }
	keyed := func() []map[string]any { return []map[string]any{{"id": 7, "name": "a"}, {"id": 6, "name": "b"}} }
	seats := func() []map[string]any {
		return []map[string]any{{"tenant": 1, "no": "b", "name": "x"}, {"tenant": 1, "no": "a", "name": "y"}}
	}
	return []Case{
		{
			ID: "C10", Name: "map", Code: `db.Model(&Account{}).Create(map[string]any{"name": "a"})`, modes: []mode{skipTransaction},
			Expect: expect(created("account", "#1").with("Name", "a")),
			write:  func(db *gorm.DB) outcome { m := one(); return wrote(db.Model(&account{}).Create(m), m) },
		},
		{
			ID: "C10", Name: "map with its key", Code: `db.Model(&Account{}).Create(map[string]any{"id": 7, "name": "a"})`,
			Expect: expect(created("account", "7")),
			write: func(db *gorm.DB) outcome {
				m := map[string]any{"id": 7, "name": "a"}
				return wrote(db.Model(&account{}).Create(m), m)
			},
		},
		{
			ID: "C10", Name: "map by field names", Code: `db.Model(&Account{}).Create(map[string]any{"ID": 7, "Name": "a"})`,
			Expect: expect(created("account", "7")),
			write: func(db *gorm.DB) outcome {
				m := map[string]any{"ID": 7, "Name": "a"}
				return wrote(db.Model(&account{}).Create(m), m)
			},
		},
		{
			ID: "C10", Name: "map with an expression", Code: `db.Model(&Account{}).Create(map[string]any{"name": gorm.Expr("lower(?)", "A")})`,
			Expect: expect(created("account", "#1").with("Name", "a")),
			write: func(db *gorm.DB) outcome {
				m := map[string]any{"name": gorm.Expr("lower(?)", "A")}
				return wrote(db.Model(&account{}).Create(m))
			},
		},
		{
			ID: "C10", Name: "map with a key that is an expression", Code: `db.Model(&Seat{}).Create(map[string]any{"tenant": 1, "no": gorm.Expr("lower(?)", "A")})`,
			Expect: refused("the key is an expression"),
			write: func(db *gorm.DB) outcome {
				m := map[string]any{"tenant": 1, "no": gorm.Expr("lower(?)", "A")}
				return wrote(db.Model(&seat{}).Create(m))
			},
		},
		{
			ID: "C10", Name: "map with a composite key", Code: `db.Model(&Seat{}).Create(map[string]any{"tenant": 1, "no": "a"})`,
			Expect: expect(created("seat", "1|a")),
			write: func(db *gorm.DB) outcome {
				m := map[string]any{"tenant": 1, "no": "a"}
				return wrote(db.Model(&seat{}).Create(m), m)
			},
		},
		{
			ID: "C11", Name: "pointer to a map", Code: `db.Model(&Account{}).Create(&map[string]any{"name": "a"})`,
			Expect: expect(created("account", "#1")),
			write:  func(db *gorm.DB) outcome { m := one(); return wrote(db.Model(&account{}).Create(&m), &m) },
		},
		{
			ID: "C12", Name: "maps by value, columns of the database", Code: `db.Model(&Account{}).Create([]map[string]any{{"name": "a"}, {"name": "b"}})`,
			Expect: refused(mapsPanic).except(expect(created("account", "#1"), created("account", "#2")), MySQL).except(refused(increment), Increment),
			write:  func(db *gorm.DB) outcome { m := two(); return wrote(db.Model(&account{}).Create(m), m) },
		},
		{
			ID: "C12", Name: "maps by value, key of the database", Code: `db.Model(&Pet{}).Create([]map[string]any{{"name": "a"}, {"name": "b"}})`,
			Expect: refused(mapsPanic).except(expect(created("pet", "#1"), created("pet", "#2")), MySQL).except(refused(increment), Increment),
			write:  func(db *gorm.DB) outcome { m := two(); return wrote(db.Model(&pet{}).Create(m), m) },
		},
		{
			ID: "C12", Name: "maps by value, composite keys", Code: `db.Model(&Seat{}).Create([]map[string]any{{"tenant": 1, "no": "b"}, {"tenant": 1, "no": "a"}})`,
			Expect: expect(created("seat", "1|b"), created("seat", "1|a")),
			write:  func(db *gorm.DB) outcome { m := seats(); return wrote(db.Model(&seat{}).Create(m), m) },
		},
		{
			ID: "C13", Name: "pointer to maps", Code: `db.Model(&Account{}).Create(&[]map[string]any{{"name": "a"}, {"name": "b"}})`,
			Expect: expect(created("account", "#1").with("Name", "a"), created("account", "#2").with("Name", "b")).except(refused(increment), Increment),
			write:  func(db *gorm.DB) outcome { m := two(); return wrote(db.Model(&account{}).Create(&m), &m) },
		},
		{
			ID: "C13", Name: "pointer to maps with keys", Code: `db.Model(&Account{}).Create(&[]map[string]any{{"id": 7, "name": "a"}, {"id": 6, "name": "b"}})`,
			Expect: expect(created("account", "7").with("Name", "a"), created("account", "6").with("Name", "b")),
			write:  func(db *gorm.DB) outcome { m := keyed(); return wrote(db.Model(&account{}).Create(&m), &m) },
		},
		{
			ID: "C14", Name: "Table and a map", Code: `db.Table("accounts").Create(map[string]any{"name": "a"})`,
			Expect: refused(bypass),
			write:  func(db *gorm.DB) outcome { return wrote(db.Table("accounts").Create(one())) },
		},
		{
			ID: "C31", Name: "DTO on the table", Code: `db.Create(&AccountDTO{Name: "a"})`,
			Expect: refused(bypass),
			write:  func(db *gorm.DB) outcome { return wrote(db.Create(&accountDTO{Name: "a"})) },
		},
		{
			ID: "C31", Name: "Table and DTO", Code: `db.Table("accounts").Create(&NameDTO{Name: "a"})`,
			Expect: refused(bypass),
			write:  func(db *gorm.DB) outcome { return wrote(db.Table("accounts").Create(&nameDTO{Name: "a"})) },
		},
		{
			ID: "C31", Name: "Model and DTO", Code: `db.Model(&Account{}).Create(&AccountDTO{Name: "a"})`,
			Expect: refused(bypass),
			write:  func(db *gorm.DB) outcome { return wrote(db.Model(&account{}).Create(&accountDTO{Name: "a"})) },
		},
		{
			ID: "C33", Name: "generics, Set", Code: `gorm.G[Account](db).Set(clause.Assignment{Column: clause.Column{Name: "name"}, Value: "a"}).Create(ctx)`,
			Expect: expect(created("account", "#1").with("Name", "a")),
			write: func(db *gorm.DB) outcome {
				return did(gorm.G[account](db).Set(clause.Assignment{Column: clause.Column{Name: "name"}, Value: "a"}).Create(ctx))
			},
		},
	}
}
