package gormoutbox_test

import (
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Account has a key, and columns, that the database makes.
type Account struct {
	_         gormoutbox.Emit `outbox:"aggregate=account"`
	ID        uint
	Name      string
	Age       int
	Status    string   `gorm:"size:20;default:new"`
	Score     int      `gorm:"default:18"`
	Tags      []string `gorm:"serializer:json"`
	CreatedAt time.Time
}

// AccountDTO is another type for the same table, without an annotation.
type AccountDTO struct {
	ID   uint
	Name string
}

func (AccountDTO) TableName() string { return "accounts" }

// Member has a unique index beside its key.
type Member struct {
	_     gormoutbox.Emit `outbox:"aggregate=member"`
	ID    uint
	Email string `gorm:"size:100;uniqueIndex"`
	Name  string
}

// Seat has a composite key.
type Seat struct {
	_      gormoutbox.Emit `outbox:"aggregate=seat"`
	Tenant int             `gorm:"primaryKey;autoIncrement:false"`
	No     string          `gorm:"primaryKey;size:20"`
	Name   string
}

// Paper is deleted softly.
type Paper struct {
	_         gormoutbox.Emit `outbox:"aggregate=paper"`
	ID        uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Name      string
	DeletedAt gorm.DeletedAt
}

// Tag has nothing but a key.
type Tag struct {
	_    gormoutbox.Emit `outbox:"aggregate=tag"`
	Name string          `gorm:"primaryKey;size:20"`
}

// Address is embedded.
type Address struct {
	City string
	Zip  string `outbox:"-"`
}

// Site has an embedded struct with a prefix, a field that GORM ignores, and one that it only writes.
type Site struct {
	_       gormoutbox.Emit `outbox:"aggregate=site"`
	ID      int64
	Home    Address `gorm:"embedded;embeddedPrefix:home_"`
	Ignored string  `gorm:"-"`
	Hidden  string  `gorm:"->:false;<-"`
	Nick    *string
}

// Versioned counts its updates, as gorm.io/plugin/optimisticlock does.
type Versioned struct {
	_       gormoutbox.Emit `outbox:"aggregate=versioned"`
	ID      int
	Name    string
	Version Version
}

// Version is a column with clauses of its own.
type Version int64

// UpdateClauses implements schema.UpdateClausesInterface.
func (Version) UpdateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{versionClause{field: f}}
}

type versionClause struct{ field *schema.Field }

func (versionClause) Name() string               { return "" }
func (versionClause) Build(clause.Builder)       {}
func (versionClause) MergeClause(*clause.Clause) {}
func (v versionClause) ModifyStatement(s *gorm.Statement) {
	if _, done := s.Clauses["version"]; done {
		return
	}
	if value, zero := v.field.ValueOf(s.Context, s.ReflectValue); !zero {
		s.AddClause(clause.Where{Exprs: []clause.Expression{clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: v.field.DBName}, Value: value}}})
	}
	s.SetColumn(v.field.DBName, clause.Expr{SQL: s.Quote(v.field.DBName) + "+1"}, true)
	s.Clauses["version"] = clause.Clause{}
}

// Company, Person, Pet, Toy and Lang are associated; all but Lang are annotated.
type Company struct {
	_    gormoutbox.Emit `outbox:"aggregate=company"`
	ID   uint
	Name string
}

// Person has one of each association.
type Person struct {
	_         gormoutbox.Emit `outbox:"aggregate=person"`
	ID        uint
	Name      string
	CompanyID *uint
	Company   *Company
	Pets      []Pet
	Toys      []Toy  `gorm:"polymorphic:Owner"`
	Langs     []Lang `gorm:"many2many:person_langs"`
}

// Pet belongs to a person.
type Pet struct {
	_        gormoutbox.Emit `outbox:"aggregate=pet"`
	ID       uint
	Name     string
	PersonID *uint
}

// Toy belongs to anything.
type Toy struct {
	_         gormoutbox.Emit `outbox:"aggregate=toy"`
	ID        uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Name      string
	OwnerID   uint
	OwnerType string
}

// Lang is not annotated.
type Lang struct {
	Code string `gorm:"primaryKey;size:10"`
}

func allModels() []any {
	return []any{
		&Account{}, &Member{}, &Seat{}, &Paper{}, &Tag{}, &Site{}, &Versioned{}, &Order{},
		&Company{}, &Person{}, &Pet{}, &Toy{}, &Lang{},
	}
}

// annotated are the models of allModels by aggregate type, for reading back.
func annotated() map[string]func() any {
	return map[string]func() any{
		"account": func() any { return &Account{} }, "member": func() any { return &Member{} }, "seat": func() any { return &Seat{} },
		"paper": func() any { return &Paper{} }, "tag": func() any { return &Tag{} }, "site": func() any { return &Site{} },
		"versioned": func() any { return &Versioned{} }, "order": func() any { return &Order{} }, "company": func() any { return &Company{} },
		"person": func() any { return &Person{} }, "pet": func() any { return &Pet{} }, "toy": func() any { return &Toy{} },
	}
}

// Made has a text key that the database makes.
type Made struct {
	_    gormoutbox.Emit `outbox:"aggregate=made"`
	ID   string          `gorm:"primaryKey;size:40;default:(-)"`
	Name string
}

// Part is deleted with its whole by the database.
type Part struct {
	_       gormoutbox.Emit `outbox:"aggregate=part"`
	ID      int             `gorm:"autoIncrement:false"`
	Name    string
	WholeID *int
}

func allAnnotated() []any {
	var all []any
	for _, newModel := range annotated() {
		all = append(all, newModel())
	}
	return all
}
