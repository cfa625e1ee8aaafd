package capturetest

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// account has a key, and a column, that the database makes.
type account struct {
	_         gormoutbox.Emit `outbox:"aggregate=account"`
	ID        uint
	Name      string `gorm:"size:50"`
	Age       int
	Status    string   `gorm:"size:20;default:new"`
	Score     int      `gorm:"default:18"`
	Grade     string   `gorm:"size:10;default:(lower('A'))"`
	Tags      []string `gorm:"serializer:json"`
	Secret    string   `gorm:"size:50" outbox:"-"`
	CreatedAt time.Time
}

// accountDTO is another type for the same table, without an annotation.
type accountDTO struct {
	ID   uint
	Name string
}

// TableName implements schema.Tabler.
func (accountDTO) TableName() string { return "accounts" }

// nameDTO says what to update, and is no model.
type nameDTO struct{ Name string }

// shard is a further table of accounts.
const shard = "accounts_2026"

// member has a unique index beside its key.
type member struct {
	_     gormoutbox.Emit `outbox:"aggregate=member"`
	ID    uint
	Email string `gorm:"size:100;uniqueIndex"`
	Name  string `gorm:"size:50"`
}

// seat has a composite key.
type seat struct {
	_      gormoutbox.Emit `outbox:"aggregate=seat"`
	Tenant int             `gorm:"primaryKey;autoIncrement:false"`
	No     string          `gorm:"primaryKey;size:20"`
	Name   string          `gorm:"size:50"`
}

// identifier is a key type with a text form of its own, as UUID types are.
type identifier [16]byte

// id is an identifier for tests.
func id(n byte) identifier { return identifier{0x01, 0x90, 15: n} }

func (i identifier) String() string { return hex.EncodeToString(i[:]) }

// Value implements driver.Valuer.
func (i identifier) Value() (driver.Value, error) { return i.String(), nil }

// Scan implements sql.Scanner.
func (i *identifier) Scan(src any) error {
	switch text := src.(type) {
	case string:
		return i.UnmarshalText([]byte(text))
	case []byte:
		return i.UnmarshalText(text)
	default:
		return fmt.Errorf("an identifier from %T", src)
	}
}

// MarshalText implements encoding.TextMarshaler.
func (i identifier) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *identifier) UnmarshalText(text []byte) error {
	n, err := hex.Decode(i[:], text[:min(len(text), 32)])
	if err == nil && n != len(i) {
		err = errors.New("an identifier has 32 digits")
	}
	return err
}

// order has a key of the client and columns of several types.
type order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order"`
	ID     identifier      `gorm:"type:char(32);primaryKey"`
	Status string          `gorm:"size:20"`
	Amount float64
	Paid   bool
	PaidAt *time.Time
	Raw    []byte
	Card   string `gorm:"size:20" outbox:"-"`
}

// paper is deleted softly.
type paper struct {
	_         gormoutbox.Emit `outbox:"aggregate=paper"`
	ID        identifier      `gorm:"type:char(32);primaryKey"`
	Name      string          `gorm:"size:50"`
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt
}

// tag has nothing but a key.
type tag struct {
	_    gormoutbox.Emit `outbox:"aggregate=tag"`
	Name string          `gorm:"primaryKey;size:20"`
}

// ticket makes its key in a hook, and is updated in another.
type ticket struct {
	_     gormoutbox.Emit `outbox:"aggregate=ticket"`
	No    string          `gorm:"primaryKey;size:20"`
	State string          `gorm:"size:20"`
}

// BeforeCreate implements GORM's hook.
func (t *ticket) BeforeCreate(*gorm.DB) error {
	if t.No == "" && t.State != "without" {
		t.No = "made"
	}
	return nil
}

// AfterUpdate implements GORM's hook, which fails for values that are no pointers.
func (t *ticket) AfterUpdate(*gorm.DB) error { return nil }

// AfterCreate implements GORM's hook.
func (t *ticket) AfterCreate(tx *gorm.DB) error {
	if t.State != "raw" {
		return nil
	}
	return tx.Model(t).Update("state", "cooked").Error
}

type address struct {
	City string `gorm:"size:50"`
	Zip  string `gorm:"size:10" outbox:"-"`
}

// site has an embedded struct, a field that GORM ignores, one that it only writes, and a pointer.
type site struct {
	_       gormoutbox.Emit `outbox:"aggregate=site"`
	ID      int64
	Home    address `gorm:"embedded;embeddedPrefix:home_"`
	Ignored string  `gorm:"-"`
	Hidden  string  `gorm:"size:20;->:false;<-"`
	Nick    *string `gorm:"size:20"`
}

// reserved has names that are words of SQL.
type reserved struct {
	_      gormoutbox.Emit `outbox:"aggregate=reserved"`
	Key    int             `gorm:"column:key;primaryKey;autoIncrement:false"`
	Order  string          `gorm:"column:order;size:20"`
	Select int             `gorm:"column:select"`
}

// TableName implements schema.Tabler.
func (reserved) TableName() string { return "group" }

// document has JSON that the database changes.
type document struct {
	_    gormoutbox.Emit `outbox:"aggregate=document"`
	ID   int             `gorm:"autoIncrement:false"`
	Body string          `gorm:"type:json"`
}

// versioned counts its updates, as gorm.io/plugin/optimisticlock does.
type versioned struct {
	_       gormoutbox.Emit `outbox:"aggregate=versioned"`
	ID      int
	Name    string `gorm:"size:50"`
	Version version
}

// version is a column with clauses of its own.
type version int64

// UpdateClauses implements schema.UpdateClausesInterface.
func (version) UpdateClauses(f *schema.Field) []clause.Interface {
	return []clause.Interface{versionClause{field: f}}
}

type versionClause struct{ field *schema.Field }

// Name implements clause.Interface.
func (versionClause) Name() string { return "" }

// Build implements clause.Expression.
func (versionClause) Build(clause.Builder) {}

// MergeClause implements clause.Interface.
func (versionClause) MergeClause(*clause.Clause) {}

// ModifyStatement implements gorm.StatementModifier.
func (v versionClause) ModifyStatement(s *gorm.Statement) {
	if _, done := s.Clauses["version"]; done {
		return
	}
	if value, zero := v.field.ValueOf(s.Context, s.ReflectValue); !zero {
		s.AddClause(clause.Where{Exprs: []clause.Expression{
			clause.Eq{Column: clause.Column{Table: clause.CurrentTable, Name: v.field.DBName}, Value: value},
		}})
	}
	s.SetColumn(v.field.DBName, clause.Expr{SQL: s.Quote(v.field.DBName) + "+1"}, true)
	s.Clauses["version"] = clause.Clause{}
}

// made has a text key that the database makes, always the same one, so that both databases are equal.
type made struct {
	_    gormoutbox.Emit `outbox:"aggregate=made"`
	ID   string          `gorm:"primaryKey;size:40;default:(-)"`
	Name string
}

// keyless has no primary key, so its rows can't be told apart.
type keyless struct {
	_    gormoutbox.Emit `outbox:"aggregate=keyless"`
	Name string          `gorm:"size:50"`
}

// ledger has the values before an update in its events.
type ledger struct {
	_      gormoutbox.Emit `outbox:"aggregate=ledger,before=values"`
	ID     int             `gorm:"autoIncrement:false"`
	Name   string          `gorm:"size:50"`
	Amount int
	Note   string `gorm:"size:50" outbox:"-"`
}

// part is deleted with its whole by the database.
type part struct {
	_       gormoutbox.Emit `outbox:"aggregate=part"`
	ID      int             `gorm:"autoIncrement:false"`
	WholeID *int
}
