//nolint:revive // The methods are those of gorm.Migrator.
package dedup

import (
	"gorm.io/gorm"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"
)

// refusedMigrator fails in every method that can return an error. The others
// are GORM's own; they find nothing.
type refusedMigrator struct {
	migrator.Migrator
	err error
}

var _ gorm.Migrator = refusedMigrator{}

func newRefusedMigrator(db *gorm.DB, r refusal) refusedMigrator {
	return refusedMigrator{Migrator: migrator.Migrator{Config: migrator.Config{DB: db, Dialector: r}}, err: r.err}
}

func (m refusedMigrator) AutoMigrate(...any) error { return m.err }

func (m refusedMigrator) CreateTable(...any) error { return m.err }

func (m refusedMigrator) DropTable(...any) error { return m.err }

func (m refusedMigrator) HasTable(any) bool { return false }

func (m refusedMigrator) RenameTable(any, any) error { return m.err }

func (m refusedMigrator) GetTables() ([]string, error) { return nil, m.err }

func (m refusedMigrator) TableType(any) (gorm.TableType, error) { return nil, m.err }

func (m refusedMigrator) AddColumn(any, string) error { return m.err }

func (m refusedMigrator) DropColumn(any, string) error { return m.err }

func (m refusedMigrator) AlterColumn(any, string) error { return m.err }

func (m refusedMigrator) MigrateColumn(any, *schema.Field, gorm.ColumnType) error { return m.err }

func (m refusedMigrator) MigrateColumnUnique(any, *schema.Field, gorm.ColumnType) error { return m.err }

func (m refusedMigrator) HasColumn(any, string) bool { return false }

func (m refusedMigrator) RenameColumn(any, string, string) error { return m.err }

func (m refusedMigrator) ColumnTypes(any) ([]gorm.ColumnType, error) { return nil, m.err }

func (m refusedMigrator) CreateView(string, gorm.ViewOption) error { return m.err }

func (m refusedMigrator) DropView(string) error { return m.err }

func (m refusedMigrator) CreateConstraint(any, string) error { return m.err }

func (m refusedMigrator) DropConstraint(any, string) error { return m.err }

func (m refusedMigrator) HasConstraint(any, string) bool { return false }

func (m refusedMigrator) CreateIndex(any, string) error { return m.err }

func (m refusedMigrator) DropIndex(any, string) error { return m.err }

func (m refusedMigrator) HasIndex(any, string) bool { return false }

func (m refusedMigrator) RenameIndex(any, string, string) error { return m.err }

func (m refusedMigrator) GetIndexes(any) ([]gorm.Index, error) { return nil, m.err }
