package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type owner struct {
	ID    int64
	Name  string
	Pets  []pet
	Home  home
	Clubs []club `gorm:"many2many:owner_clubs"`
}

func (owner) BeforeCreate(*gorm.DB) error { return errors.New("a hook ran") }

type pet struct {
	ID      int64
	OwnerID int64
	Name    string
}

type home struct{ ID, OwnerID int64 }

type club struct{ ID int64 }

func ignore[T any](_ T, err error) error { return err }

// calls are methods of *gorm.DB that must fail, with the error that each returns.
var calls = map[string]func(tx *gorm.DB) error{
	"Error":           func(tx *gorm.DB) error { return tx.Error },
	"Create":          func(tx *gorm.DB) error { return tx.Create(&owner{}).Error },
	"Create nil":      func(tx *gorm.DB) error { return tx.Create(nil).Error },
	"Create slice":    func(tx *gorm.DB) error { return tx.Create([]owner{{}, {}}).Error },
	"Create empty":    func(tx *gorm.DB) error { return tx.Create([]owner{}).Error },
	"Create map":      func(tx *gorm.DB) error { return tx.Model(&owner{}).Create(map[string]any{"name": "x"}).Error },
	"Create untyped":  func(tx *gorm.DB) error { return tx.Create(7).Error },
	"CreateInBatches": func(tx *gorm.DB) error { return tx.CreateInBatches([]owner{{}, {}, {}}, 2).Error },
	"Save":            func(tx *gorm.DB) error { return tx.Save(&owner{ID: 1}).Error },
	"Save new":        func(tx *gorm.DB) error { return tx.Save(&owner{}).Error },
	"Save slice":      func(tx *gorm.DB) error { return tx.Save([]owner{{ID: 1}}).Error },
	"First":           func(tx *gorm.DB) error { return tx.First(&owner{}, 1).Error },
	"Take":            func(tx *gorm.DB) error { return tx.Take(&owner{}, "name = ?", "x").Error },
	"Last":            func(tx *gorm.DB) error { return tx.Last(&owner{}).Error },
	"Find":            func(tx *gorm.DB) error { return tx.Find(&[]owner{}).Error },
	"Find map":        func(tx *gorm.DB) error { return tx.Table("owners").Find(&map[string]any{}).Error },
	"FindInBatches": func(tx *gorm.DB) error {
		return tx.FindInBatches(&[]owner{}, 2, func(*gorm.DB, int) error { return nil }).Error
	},
	"FirstOrInit": func(tx *gorm.DB) error { return tx.FirstOrInit(&owner{}, owner{Name: "x"}).Error },
	"FirstOrCreate": func(tx *gorm.DB) error {
		return tx.Attrs(owner{Name: "y"}).FirstOrCreate(&owner{}, owner{Name: "x"}).Error
	},
	"Update":            func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Update("name", "x").Error },
	"Update everything": func(tx *gorm.DB) error { return tx.Model(&owner{}).Update("name", "x").Error },
	"Updates":           func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Updates(owner{Name: "x"}).Error },
	"Updates map": func(tx *gorm.DB) error {
		return tx.Table("owners").Where("1 = 1").Updates(map[string]any{"name": "x"}).Error
	},
	"UpdateColumn": func(tx *gorm.DB) error {
		return tx.Model(&owner{ID: 1}).UpdateColumn("name", gorm.Expr("name || ?", "x")).Error
	},
	"UpdateColumns":   func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).UpdateColumns(owner{Name: "x"}).Error },
	"Delete":          func(tx *gorm.DB) error { return tx.Delete(&owner{}, 1).Error },
	"Unscoped Delete": func(tx *gorm.DB) error { return tx.Unscoped().Where("1 = 1").Delete(&owner{}).Error },
	"Count":           func(tx *gorm.DB) error { var n int64; return tx.Model(&owner{}).Count(&n).Error },
	"Count Distinct":  func(tx *gorm.DB) error { var n int64; return tx.Model(&owner{}).Distinct("name").Count(&n).Error },
	"Pluck":           func(tx *gorm.DB) error { var names []string; return tx.Model(&owner{}).Pluck("name", &names).Error },
	"Scan":            func(tx *gorm.DB) error { return tx.Table("owners").Scan(&[]owner{}).Error },
	"Row":             func(tx *gorm.DB) error { var s string; return tx.Table("owners").Select("name").Row().Scan(&s) },
	"Row Err":         func(tx *gorm.DB) error { return tx.Raw("SELECT 1").Row().Err() },
	"Rows":            func(tx *gorm.DB) error { return ignore(tx.Model(&owner{}).Rows()) },
	"Exec": func(tx *gorm.DB) error {
		return tx.Exec("UPDATE owners SET name = ? WHERE id IN ?", "x", []int{1, 2}).Error
	},
	"Exec named": func(tx *gorm.DB) error {
		return tx.Exec("DELETE FROM owners WHERE id = @id", map[string]any{"id": 1}).Error
	},
	"Raw Scan":       func(tx *gorm.DB) error { var n int; return tx.Raw("SELECT ?", 1).Scan(&n).Error },
	"Raw Find":       func(tx *gorm.DB) error { return tx.Raw("SELECT * FROM owners").Find(&[]owner{}).Error },
	"Transaction":    func(tx *gorm.DB) error { return tx.Transaction(func(*gorm.DB) error { return nil }) },
	"Begin":          func(tx *gorm.DB) error { return tx.Begin().Error },
	"Begin Create":   func(tx *gorm.DB) error { return tx.Begin().Create(&owner{}).Error },
	"Begin Commit":   func(tx *gorm.DB) error { return tx.Begin().Commit().Error },
	"Begin Rollback": func(tx *gorm.DB) error { return tx.Begin().Rollback().Error },
	"Commit":         func(tx *gorm.DB) error { return tx.Commit().Error },
	"Rollback":       func(tx *gorm.DB) error { return tx.Rollback().Error },
	"SavePoint":      func(tx *gorm.DB) error { return tx.SavePoint("a").Error },
	"RollbackTo":     func(tx *gorm.DB) error { return tx.RollbackTo("a").Error },
	"Connection":     func(tx *gorm.DB) error { return tx.Connection(func(*gorm.DB) error { return nil }) },
	"DB":             func(tx *gorm.DB) error { return ignore(tx.DB()) },
	"AddError":       func(tx *gorm.DB) error { return tx.AddError(errors.New("another")) },
	"Chain": func(tx *gorm.DB) error {
		return tx.Debug().Set("a", 1).Model(&owner{}).Select("name", "id").Omit("id").Distinct().Table("owners AS o").Joins("Home").InnerJoins("Home").
			Preload("Pets", "name = ?", "x").Preload(clause.Associations).MapColumns(map[string]string{"a": "b"}).
			Where("name = ?", "x").Where(owner{Name: "x"}).Where(tx.Where("a = 1")).Not("1 = 2").Or(map[string]any{"name": "y"}).
			Group("name").Having("count(*) > ?", 1).Order("name").Limit(1).Offset(1).Unscoped().
			Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("2 = 2") }).
			Clauses(clause.Locking{Strength: "UPDATE"}, clause.OnConflict{DoNothing: true}, clause.Returning{}).
			Find(&[]owner{}).Error
	},
	"Session":        func(tx *gorm.DB) error { return tx.Session(&gorm.Session{}).Create(&owner{}).Error },
	"Session NewDB":  func(tx *gorm.DB) error { return tx.Session(&gorm.Session{NewDB: true}).Create(&owner{}).Error },
	"Session DryRun": func(tx *gorm.DB) error { return tx.Session(&gorm.Session{DryRun: true}).Create(&owner{}).Error },
	"Session Initialized": func(tx *gorm.DB) error {
		return tx.Session(&gorm.Session{Initialized: true, SkipHooks: true, FullSaveAssociations: true}).Create(&owner{}).Error
	},
	"Session PrepareStmt": func(tx *gorm.DB) error { return tx.Session(&gorm.Session{PrepareStmt: true}).Find(&[]owner{}).Error },
	"Session no default transaction": func(tx *gorm.DB) error {
		return tx.Session(&gorm.Session{SkipDefaultTransaction: true, AllowGlobalUpdate: true, CreateBatchSize: 1}).Create([]owner{{}, {}}).Error
	},
	"WithContext": func(tx *gorm.DB) error { return tx.WithContext(context.Background()).Create(&owner{}).Error },
	"subquery": func(tx *gorm.DB) error {
		return tx.Where("id IN (?)", tx.Model(&pet{}).Select("owner_id")).Find(&[]owner{}).Error
	},
	"reset error": func(tx *gorm.DB) error { tx.Error = nil; return tx.Create(&owner{}).Error },
	"reset error, Row": func(tx *gorm.DB) error {
		tx.Error = nil
		return tx.Raw("SELECT 1").Row().Err()
	},
	"reset error, Rows":        func(tx *gorm.DB) error { tx.Error = nil; return ignore(tx.Raw("SELECT 1").Rows()) },
	"reset error, Transaction": func(tx *gorm.DB) error { tx.Error = nil; return tx.Transaction(func(*gorm.DB) error { return nil }) },
	"reset error, Begin":       func(tx *gorm.DB) error { tx.Error = nil; return tx.Begin().Error },
	"reset error, Connection":  func(tx *gorm.DB) error { tx.Error = nil; return tx.Connection(func(*gorm.DB) error { return nil }) },
	"ConnPool Exec": func(tx *gorm.DB) error {
		return ignore(tx.Statement.ConnPool.ExecContext(context.Background(), "SELECT 1"))
	},
	"ConnPool Query": func(tx *gorm.DB) error {
		return ignore(tx.Statement.ConnPool.QueryContext(context.Background(), "SELECT 1"))
	},
	"ConnPool QueryRow": func(tx *gorm.DB) error {
		return tx.Statement.ConnPool.QueryRowContext(context.Background(), "SELECT 1").Err()
	},
	"ConnPool Prepare": func(tx *gorm.DB) error {
		return ignore(tx.Statement.ConnPool.PrepareContext(context.Background(), "SELECT 1"))
	},
	"Association Find":       func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Pets").Find(&[]pet{}) },
	"Association Append":     func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Pets").Append(&pet{Name: "x"}) },
	"Association Append m2m": func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Clubs").Append(&club{}) },
	"Association Replace":    func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Home").Replace(&home{}) },
	"Association Delete":     func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Pets").Delete(&pet{ID: 1}) },
	"Association Clear":      func(tx *gorm.DB) error { return tx.Model(&owner{ID: 1}).Association("Clubs").Clear() },
	"Association Count": func(tx *gorm.DB) error {
		a := tx.Model(&owner{ID: 1}).Association("Pets")
		a.Count()
		return a.Error
	},
	"Migrator":         func(tx *gorm.DB) error { return tx.Migrator().AutoMigrate(&owner{}) },
	"AutoMigrate":      func(tx *gorm.DB) error { return tx.AutoMigrate(&owner{}, &pet{}) },
	"CreateTable":      func(tx *gorm.DB) error { return tx.Table("x").Migrator().CreateTable(&owner{}) },
	"DropTable":        func(tx *gorm.DB) error { return tx.Migrator().DropTable(&owner{}) },
	"RenameTable":      func(tx *gorm.DB) error { return tx.Migrator().RenameTable("a", "b") },
	"GetTables":        func(tx *gorm.DB) error { return ignore(tx.Migrator().GetTables()) },
	"TableType":        func(tx *gorm.DB) error { return ignore(tx.Migrator().TableType(&owner{})) },
	"AddColumn":        func(tx *gorm.DB) error { return tx.Migrator().AddColumn(&owner{}, "Name") },
	"DropColumn":       func(tx *gorm.DB) error { return tx.Migrator().DropColumn(&owner{}, "Name") },
	"AlterColumn":      func(tx *gorm.DB) error { return tx.Migrator().AlterColumn(&owner{}, "Name") },
	"MigrateColumn":    func(tx *gorm.DB) error { return tx.Migrator().MigrateColumn(&owner{}, nil, nil) },
	"RenameColumn":     func(tx *gorm.DB) error { return tx.Migrator().RenameColumn(&owner{}, "Name", "N") },
	"ColumnTypes":      func(tx *gorm.DB) error { return ignore(tx.Migrator().ColumnTypes(&owner{})) },
	"CreateView":       func(tx *gorm.DB) error { return tx.Migrator().CreateView("v", gorm.ViewOption{Query: tx.Table("x")}) },
	"DropView":         func(tx *gorm.DB) error { return tx.Migrator().DropView("v") },
	"CreateConstraint": func(tx *gorm.DB) error { return tx.Migrator().CreateConstraint(&owner{}, "Pets") },
	"DropConstraint":   func(tx *gorm.DB) error { return tx.Migrator().DropConstraint(&owner{}, "Pets") },
	"CreateIndex":      func(tx *gorm.DB) error { return tx.Migrator().CreateIndex(&owner{}, "Name") },
	"DropIndex":        func(tx *gorm.DB) error { return tx.Migrator().DropIndex(&owner{}, "Name") },
	"RenameIndex":      func(tx *gorm.DB) error { return tx.Migrator().RenameIndex(&owner{}, "a", "b") },
	"GetIndexes":       func(tx *gorm.DB) error { return ignore(tx.Migrator().GetIndexes(&owner{})) },
	"G Create":         func(tx *gorm.DB) error { return gorm.G[pet](tx).Create(context.Background(), &pet{}) },
	"G Find":           func(tx *gorm.DB) error { return ignore(gorm.G[pet](tx).Where("1 = 1").Find(context.Background())) },
	"G First":          func(tx *gorm.DB) error { return ignore(gorm.G[pet](tx).First(context.Background())) },
	"G Update": func(tx *gorm.DB) error {
		return ignore(gorm.G[pet](tx).Where("1 = 1").Update(context.Background(), "name", "x"))
	},
	"G Delete": func(tx *gorm.DB) error { return ignore(gorm.G[pet](tx).Where("1 = 1").Delete(context.Background())) },
	"G Count":  func(tx *gorm.DB) error { return ignore(gorm.G[pet](tx).Count(context.Background(), "*")) },
	"G Exec":   func(tx *gorm.DB) error { return gorm.G[pet](tx).Exec(context.Background(), "SELECT 1") },
	"G Row":    func(tx *gorm.DB) error { return gorm.G[pet](tx).Raw("SELECT 1").Row(context.Background()).Err() },
	"G Rows":   func(tx *gorm.DB) error { return ignore(gorm.G[pet](tx).Raw("SELECT 1").Rows(context.Background())) },
	"G Scan":   func(tx *gorm.DB) error { return gorm.G[pet](tx).Scan(context.Background(), &[]pet{}) },
	"G FindInBatches": func(tx *gorm.DB) error {
		return gorm.G[pet](tx).FindInBatches(context.Background(), 2, func([]pet, int) error { return nil })
	},
}

func TestTxOutsideFailsInEveryCall(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := dedup.Tx(t.Context())
			require.NotNil(t, tx)
			var err error
			require.NotPanics(t, func() { err = call(tx) })
			require.ErrorIs(t, err, dedup.ErrNoMiddleware)
			missing, ok := errors.AsType[*dedup.NoMiddlewareError](err)
			require.True(t, ok)
			assert.Empty(t, missing.Handler)
			assert.ErrorContains(t, missing, "Deduplicator.Middleware did not run (outside of a router)")
			assert.ErrorContains(t, missing, "router.AddMiddleware(d.Middleware)")
		})
	}
}

// Methods without an error find nothing.
func TestTxOutsideFindsNothing(t *testing.T) {
	t.Parallel()
	m := dedup.Tx(t.Context()).Migrator()
	assert.False(t, m.HasTable(&owner{}))
	assert.False(t, m.HasTable("owners"))
	assert.False(t, m.HasColumn(&owner{}, "Name"))
	assert.False(t, m.HasIndex(&owner{}, "Name"))
	assert.False(t, m.HasConstraint(&owner{}, "Pets"))
	assert.Empty(t, m.CurrentDatabase())
	assert.Empty(t, m.GetTypeAliases("text"))
	assert.Equal(t, "SELECT dedup_middleware_did_not_run",
		dedup.Tx(t.Context()).ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Find(&[]owner{}) }))
	assert.Zero(t, dedup.Tx(t.Context()).Model(&owner{ID: 1}).Association("Pets").Count())
}

// A statement of a real database that takes it as a subquery fails too.
func TestTxOutsideAsSubquery(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := env.Open(t)
		require.NoError(t, db.AutoMigrate(&effect{}))
		err := db.Where("id IN (?)", dedup.Tx(t.Context()).Model(&pet{}).Select("id")).Find(&[]effect{}).Error
		assert.ErrorContains(t, err, "dedup_middleware_did_not_run")
	})
}

func TestTxOutsideNamesTheHandler(t *testing.T) {
	t.Parallel()
	result := make(chan error, 1)
	pubSub, stop := run(t, func(msg *message.Message) error {
		result <- dedup.Tx(msg.Context()).Create(&pet{}).Error
		return nil
	})
	require.NoError(t, pubSub.Publish("orders", message.NewMessage("m1", nil)))
	err := <-result
	stop()
	missing, ok := errors.AsType[*dedup.NoMiddlewareError](err)
	require.True(t, ok)
	assert.Equal(t, "stock", missing.Handler)
	assert.ErrorContains(t, err, `Deduplicator.Middleware did not run (handler "stock")`)
}

func TestTxWithNilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	require.ErrorIs(t, dedup.Tx(none).Create(&pet{}).Error, dedup.ErrNoMiddleware)
}

// Each call gets one of its own: callbacks and plugins of one are not those of another.
func TestTxOutsideSharesNothing(t *testing.T) {
	t.Parallel()
	one := dedup.Tx(t.Context())
	ran := false
	require.NoError(t, one.Callback().Create().Register("test", func(*gorm.DB) { ran = true }))
	require.Error(t, dedup.Tx(t.Context()).Create(&pet{}).Error)
	assert.False(t, ran)
}
