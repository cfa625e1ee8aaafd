package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// A transaction of MySQL sees rows as they were at its first read, unless it has changed them. A row that another one has
// given the same values is told as it is, not as the snapshot has it. With clientFoundRows it counts as written.
func TestRowsInAnOldSnapshot(t *testing.T) {
	t.Parallel()
	update := func(tx *gorm.DB) error { return tx.Model(&Item{ID: 1}).Update("batch", 2).Error }
	upsert := func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Item{ID: 1, Batch: 2, Name: "new"}).Error
	}
	for name, c := range map[string]struct {
		write func(tx *gorm.DB) error
		want  []string
	}{
		"update": {update, []string{`{"ID":1,"Batch":2,"Name":"new"}`}},
		"upsert": {upsert, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, testenv.MySQLFoundRows(t), gormoutbox.Config{}, &Item{})
			require.NoError(t, ignoring(g).Create(&Item{ID: 1, Batch: 1, Name: "old"}).Error)
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				var seen Item
				require.NoError(t, tx.First(&seen, 1).Error)
				require.NoError(t, ignoring(g).Model(&seen).Updates(map[string]any{"batch": 2, "name": "new"}).Error)
				return c.write(tx)
			}))
			var payloads []string
			for _, e := range events(t, g) {
				payloads = append(payloads, string(e.Payload))
			}
			assert.Equal(t, c.want, payloads)
			idle(t, g)
		})
	}
}

// Voucher has another aggregate id than its key.
type Voucher struct {
	_    gormoutbox.Emit `outbox:"aggregate=voucher,key=code"`
	ID   uint
	Code string `gorm:"size:20;not null;uniqueIndex"`
}

// An upsert that may change an aggregate id reads what is there now. A row that only the snapshot still has was not written by it.
func TestUpsertTellsNoRowThatOnlyItsSnapshotHas(t *testing.T) {
	t.Parallel()
	// Not on SQLite, where the other transaction would have to wait.
	for name, fresh := range map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Voucher{})
			require.NoError(t, ignoring(g).Create(&Voucher{ID: 7, Code: "d"}).Error)
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				var seen Voucher
				require.NoError(t, tx.First(&seen, 7).Error)
				require.NoError(t, ignoring(g).Model(&Voucher{}).Where("id = ?", 7).Updates(map[string]any{"id": 2, "code": "e"}).Error)
				return tx.Save(&Voucher{ID: 1, Code: "d"}).Error
			}))
			all := events(t, g)
			require.Len(t, all, 1)
			assert.JSONEq(t, `{"ID":1,"Code":"d"}`, string(all[0].Payload))
			idle(t, g)
		})
	}
}

// In a snapshot two rows may have one value of a unique index: one that another transaction has changed meanwhile and one that
// this one writes. InnoDB finds the first.
func TestUpsertTellsTheRowThatTookTheValueOfOneInItsSnapshot(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Badge{})
			require.NoError(t, ignoring(g).Create(&Badge{ID: 1, Code: new("ä")}).Error)
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				var seen Badge
				require.NoError(t, tx.First(&seen, 1).Error)
				// Now "a" stands for row 3 and for nothing else; under the collation it is "ä" as well.
				require.NoError(t, ignoring(g).Model(&seen).Update("code", nil).Error)
				require.NoError(t, ignoring(g).Create(&Badge{ID: 3, Code: new("A")}).Error)
				return tx.Save(&[]Badge{{Code: new("a")}}).Error
			}))
			all := events(t, g)
			require.Len(t, all, 1)
			assert.JSONEq(t, `{"ID":3,"Code":"a"}`, string(all[0].Payload))
			idle(t, g)
		})
	}
}

// Badge has a unique index that may be NULL.
type Badge struct {
	_    gormoutbox.Emit `outbox:"aggregate=badge"`
	ID   uint
	Code *string `gorm:"size:20;uniqueIndex"`
}
