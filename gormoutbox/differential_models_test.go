package gormoutbox_test

import (
	"math/rand/v2"
	"reflect"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// DiffParcel has a key that the database can make, a unique index beside it, columns that the database or GORM
// fills in, and one that no event has.
type DiffParcel struct {
	_         gormoutbox.Emit `outbox:"aggregate=parcel"`
	ID        uint
	Code      *string `gorm:"size:20;uniqueIndex"`
	Name      string  `gorm:"size:20"`
	N         int
	Status    string `gorm:"size:20;default:new"`
	Secret    string `gorm:"size:20" outbox:"-"`
	UpdatedAt time.Time
}

// DiffDoc is deleted softly, has a text key, and its updates tell the old values.
type DiffDoc struct {
	_         gormoutbox.Emit `outbox:"aggregate=doc,before=values"`
	ID        string          `gorm:"primaryKey;size:20"`
	Name      string          `gorm:"size:20"`
	N         int
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt
}

// DiffFolder is deleted softly, too; nothing else is special about it.
type DiffFolder struct {
	_         gormoutbox.Emit `outbox:"aggregate=folder"`
	ID        uint
	Name      string `gorm:"size:20"`
	N         int
	DeletedAt gorm.DeletedAt
}

// DiffCell has a composite key.
type DiffCell struct {
	_     gormoutbox.Emit `outbox:"aggregate=cell,before=columns"`
	Shelf int             `gorm:"primaryKey;autoIncrement:false"`
	No    string          `gorm:"primaryKey;size:20"`
	Name  string          `gorm:"size:20"`
	N     int
}

// DiffCoupon has another aggregate id than its key.
type DiffCoupon struct {
	_    gormoutbox.Emit `outbox:"aggregate=coupon,key=code"`
	ID   uint
	Code string `gorm:"size:20;not null;uniqueIndex"`
	Name string `gorm:"size:20"`
	N    int
}

// DiffGroup, DiffOwner, DiffChild, DiffTag and DiffLink, the table between owners and tags, are associated.
type DiffGroup struct {
	_    gormoutbox.Emit `outbox:"aggregate=group"`
	ID   uint
	Name string `gorm:"size:20"`
	N    int
}

// DiffOwner has one of each association.
type DiffOwner struct {
	_           gormoutbox.Emit `outbox:"aggregate=owner"`
	ID          uint
	Name        string `gorm:"size:20"`
	N           int
	DiffGroupID *uint
	Group       *DiffGroup  `gorm:"foreignKey:DiffGroupID"`
	Children    []DiffChild `gorm:"foreignKey:DiffOwnerID"`
	Tags        []DiffTag   `gorm:"many2many:diff_links"`
}

// DiffChild belongs to an owner.
type DiffChild struct {
	_           gormoutbox.Emit `outbox:"aggregate=child"`
	ID          uint
	Name        string `gorm:"size:20"`
	N           int
	DiffOwnerID *uint
}

// DiffTag has nothing but a key.
type DiffTag struct {
	_  gormoutbox.Emit `outbox:"aggregate=tag"`
	ID string          `gorm:"primaryKey;size:20"`
}

// DiffLink is a join table that is annotated itself.
type DiffLink struct {
	_           gormoutbox.Emit `outbox:"aggregate=link"`
	DiffOwnerID uint            `gorm:"primaryKey;autoIncrement:false"`
	DiffTagID   string          `gorm:"primaryKey;size:20"`
	CreatedAt   time.Time
}

// diffModel is what the steps and the comparison need to know of a model.
type diffModel struct {
	aggregate string
	table     string
	// row makes a random row with its key, and key only its key.
	row func(r *rand.Rand) any
	key func(r *rand.Rand) any
	// primary are the columns of the primary key, id the fields of the aggregate id.
	primary, id []string
	// target is another unique column.
	target string
	// rekey makes an assignment that changes the aggregate id or the primary key.
	rekey func(r *rand.Rand) map[string]any
	// hidden are fields that no payload has.
	hidden []string
	// auto says that the database makes keys, soft that rows are deleted softly.
	auto, soft bool
	before     string
}

func (m *diffModel) typ() reflect.Type {
	return reflect.TypeOf(m.row(rand.New(rand.NewPCG(0, 0)))).Elem()
}

// empty is a pointer to a zero row, list one to an empty list.
func (m *diffModel) empty() any { return reflect.New(m.typ()).Interface() }
func (m *diffModel) list() any  { return reflect.New(reflect.SliceOf(m.typ())).Interface() }

// listOf is a pointer to a list of the rows.
func (m *diffModel) listOf(rows ...any) any {
	l := reflect.New(reflect.SliceOf(m.typ()))
	for _, row := range rows {
		l.Elem().Set(reflect.Append(l.Elem(), reflect.ValueOf(row).Elem()))
	}
	return l.Interface()
}

func diffID(r *rand.Rand) uint { return 1 + r.UintN(5) }

// Some of the texts are the same to MySQL, and one has what separates the parts of a composite key.
func diffText(r *rand.Rand) string { return diffPick(r, "a", "b", "c", "d", "A", "ä", "x|y") }

func diffName(r *rand.Rand) string { return diffPick(r, "one", "two", "three") }

func diffN(r *rand.Rand) int { return r.IntN(4) }

func diffRef(r *rand.Rand) *uint {
	if r.IntN(3) == 0 {
		return nil
	}
	return new(diffID(r))
}

func diffPick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// diffModels are all of them, in an order in which they can be created.
func diffModels() []*diffModel {
	byID := func(r *rand.Rand) map[string]any { return map[string]any{"id": diffID(r)} }
	byText := func(r *rand.Rand) map[string]any { return map[string]any{"id": diffText(r)} }
	id, noN := []string{"id"}, []string{"ID"}
	return []*diffModel{
		{
			aggregate: "parcel", table: "diff_parcels", primary: id, id: noN, target: "code", auto: true, hidden: []string{"Secret"}, rekey: byID,
			row: func(r *rand.Rand) any {
				p := &DiffParcel{ID: diffID(r), Name: diffName(r), N: diffN(r), Secret: diffName(r), Status: diffPick(r, "", "open", "shut")}
				if r.IntN(3) > 0 {
					p.Code = new(diffText(r))
				}
				return p
			},
			key: func(r *rand.Rand) any { return &DiffParcel{ID: diffID(r)} },
		},
		{
			aggregate: "doc", table: "diff_docs", primary: id, id: noN, soft: true, before: "values", rekey: byText,
			row: func(r *rand.Rand) any { return &DiffDoc{ID: diffText(r), Name: diffName(r), N: diffN(r)} },
			key: func(r *rand.Rand) any { return &DiffDoc{ID: diffText(r)} },
		},
		{
			aggregate: "folder", table: "diff_folders", primary: id, id: noN, soft: true, auto: true, rekey: byID,
			row: func(r *rand.Rand) any { return &DiffFolder{ID: diffID(r), Name: diffName(r), N: diffN(r)} },
			key: func(r *rand.Rand) any { return &DiffFolder{ID: diffID(r)} },
		},
		{
			aggregate: "cell", table: "diff_cells", primary: []string{"shelf", "no"}, id: []string{"Shelf", "No"}, before: "columns",
			rekey: func(r *rand.Rand) map[string]any {
				return diffPick(r, map[string]any{"shelf": 1 + r.IntN(2)}, map[string]any{"no": diffText(r)})
			},
			row: func(r *rand.Rand) any {
				return &DiffCell{Shelf: 1 + r.IntN(2), No: diffText(r), Name: diffName(r), N: diffN(r)}
			},
			key: func(r *rand.Rand) any { return &DiffCell{Shelf: 1 + r.IntN(2), No: diffText(r)} },
		},
		{
			aggregate: "coupon", table: "diff_coupons", primary: id, id: []string{"Code"}, target: "code", auto: true,
			rekey: func(r *rand.Rand) map[string]any {
				return diffPick(r, map[string]any{"id": diffID(r)}, map[string]any{"code": diffText(r)}, map[string]any{"id": diffID(r), "code": diffText(r)})
			},
			row: func(r *rand.Rand) any {
				return &DiffCoupon{ID: diffID(r), Code: diffText(r), Name: diffName(r), N: diffN(r)}
			},
			key: func(r *rand.Rand) any { return &DiffCoupon{ID: diffID(r)} },
		},
		{
			aggregate: "group", table: "diff_groups", primary: id, id: noN, auto: true, rekey: byID,
			row: func(r *rand.Rand) any { return &DiffGroup{ID: diffID(r), Name: diffName(r), N: diffN(r)} },
			key: func(r *rand.Rand) any { return &DiffGroup{ID: diffID(r)} },
		},
		{
			aggregate: "tag", table: "diff_tags", primary: id, id: noN, rekey: byText,
			row: func(r *rand.Rand) any { return &DiffTag{ID: diffText(r)} },
			key: func(r *rand.Rand) any { return &DiffTag{ID: diffText(r)} },
		},
		{
			aggregate: "owner", table: "diff_owners", primary: id, id: noN, auto: true, hidden: []string{"Group", "Children", "Tags"}, rekey: byID,
			row: func(r *rand.Rand) any {
				return &DiffOwner{ID: diffID(r), Name: diffName(r), N: diffN(r), DiffGroupID: diffRef(r)}
			},
			key: func(r *rand.Rand) any { return &DiffOwner{ID: diffID(r)} },
		},
		{
			aggregate: "child", table: "diff_children", primary: id, id: noN, auto: true, rekey: byID,
			row: func(r *rand.Rand) any {
				return &DiffChild{ID: diffID(r), Name: diffName(r), N: diffN(r), DiffOwnerID: diffRef(r)}
			},
			key: func(r *rand.Rand) any { return &DiffChild{ID: diffID(r)} },
		},
		{
			aggregate: "link", table: "diff_links", primary: []string{"diff_owner_id", "diff_tag_id"}, id: []string{"DiffOwnerID", "DiffTagID"},
			rekey: func(r *rand.Rand) map[string]any { return map[string]any{"diff_tag_id": diffText(r)} },
			row:   func(r *rand.Rand) any { return &DiffLink{DiffOwnerID: diffID(r), DiffTagID: diffText(r)} },
			key:   func(r *rand.Rand) any { return &DiffLink{DiffOwnerID: diffID(r), DiffTagID: diffText(r)} },
		},
	}
}

// plain says whether the model has the columns name and n.
func (m *diffModel) plain() bool { return m.aggregate != "tag" && m.aggregate != "link" }
