package gormoutbox_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// meddler is a pool that does something before the first statement in a transaction that begins with verb.
type meddler struct {
	*sql.DB
	verb   string
	meddle func()
}

func (m *meddler) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := m.DB.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &meddlerTx{tx, m}, nil
}

func (m *meddler) GetDBConn() (*sql.DB, error) { return m.DB, nil }

type meddlerTx struct {
	*sql.Tx
	m *meddler
}

func (t *meddlerTx) look(query string) {
	if fn := t.m.meddle; fn != nil && strings.HasPrefix(query, t.m.verb) {
		t.m.meddle = nil
		fn()
	}
}

func (t *meddlerTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	t.look(query)
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *meddlerTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.look(query)
	return t.Tx.QueryContext(ctx, query, args...)
}

// A row that another transaction inserts between the plugin's read and the upsert has an aggregate id that is not known.
func TestUpsertOfARowInsertedMeanwhile(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.Postgres(t), gormoutbox.Config{}, &Room{})
	pool, err := g.DB()
	require.NoError(t, err)
	m := &meddler{DB: pool, verb: "INSERT", meddle: func() {
		_, err := pool.ExecContext(t.Context(), `INSERT INTO rooms (id, house, name) VALUES (1, 'a', 'n')`)
		assert.NoError(t, err)
	}}
	g.ConnPool, g.Statement.ConnPool = m, m
	upsert := func() error {
		return g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Room{ID: 1, House: "b"}).Error
	}
	e, ok := isCapture(upsert())
	require.True(t, ok)
	assert.Contains(t, e.Cause, "another transaction inserted the row")
	assert.Empty(t, events(t, g))
	var row Room
	require.NoError(t, g.First(&row, 1).Error)
	assert.Equal(t, "a", row.House)

	require.NoError(t, upsert(), "it is known by now")
	all := events(t, g)
	require.Equal(t, []string{"room.upserted"}, types(all))
	assert.Equal(t, "a", all[0].headers(t)[gormoutbox.HeaderPreviousAggregateID])
	idle(t, g)
}

// What an upsert may move to another aggregate is locked from the plugin's read on, also where there is no row yet if the
// database can.
func TestUpsertLocksWhatItMayMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fresh         func(testing.TB) testenv.Database
		limit, meddle string
		there         bool
	}{
		"postgres":      {testenv.Postgres, "SET lock_timeout = 500", "UPDATE rooms SET house = 'c' WHERE id = 1", true},
		"mysql":         {testenv.MySQLPath, "SET SESSION innodb_lock_wait_timeout = 1", "UPDATE rooms SET house = 'c' WHERE id = 1", true},
		"mysql, no row": {testenv.MySQLPath, "SET SESSION innodb_lock_wait_timeout = 1", "INSERT INTO rooms (id, house, name) VALUES (1, 'c', 'n')", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, c.fresh(t), gormoutbox.Config{}, &Room{})
			if c.there {
				require.NoError(t, ignoring(g).Create(&Room{ID: 1, House: "a"}).Error)
			}
			pool, err := g.DB()
			require.NoError(t, err)
			other, err := pool.Conn(t.Context())
			require.NoError(t, err)
			_, err = other.ExecContext(t.Context(), c.limit)
			require.NoError(t, err)
			m := &meddler{DB: pool, verb: "INSERT", meddle: func() {
				_, err := other.ExecContext(t.Context(), c.meddle)
				assert.Error(t, err, "it has to wait")
			}}
			g.ConnPool, g.Statement.ConnPool = m, m
			require.NoError(t, g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Room{ID: 1, House: "b"}).Error)
			require.NoError(t, other.Close())
			all := events(t, g)
			require.Equal(t, []string{"room.upserted"}, types(all)[:1])
			if c.there {
				assert.Equal(t, "a", all[0].headers(t)[gormoutbox.HeaderPreviousAggregateID])
			}
		})
	}
}

// A sequence may make a key that is there, as it does not know of keys that were set by hand.
func TestUpsertMeetsARowByAMadeKey(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.Postgres(t), gormoutbox.Config{}, &Account{})
	require.NoError(t, ignoring(g).Create(&Account{ID: 1, Name: "by hand"}).Error)
	for _, name := range []string{"meets it", "is new"} {
		require.NoError(t, g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Account{Name: name}).Error)
	}
	assert.Equal(t, 2, count(t, g, &Account{}))
	assert.Equal(t, []string{"account.upserted", "account.created"}, types(events(t, g)))
}

// Over another column than the key, the key's own value is another key for the row that is met.
func TestUpsertAssignsTheKeyOfAnotherRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Member{})
		require.NoError(t, ignoring(g).Create(&Member{ID: 1, Email: "e", Name: "n"}).Error)
		_, ok := isCapture(g.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"id", "name"}),
		}).Create(&Member{ID: 2, Email: "e", Name: "m"}).Error)
		assert.True(t, ok)
		var row Member
		require.NoError(t, g.First(&row).Error)
		assert.Equal(t, Member{ID: 1, Email: "e", Name: "n"}, row)
		assert.Empty(t, events(t, g))
		idle(t, g)
	})
}

// Without a target the conflict may be over a unique column whose value is not that of the upsert's value.
func TestUpsertLeavesOutAUniqueColumn(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Member{})
			require.NoError(t, ignoring(g).Create(&Member{ID: 1, Email: "", Name: "n"}).Error)
			upsert := g.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"name"})}).Session(&gorm.Session{})
			for _, tx := range []*gorm.DB{upsert.Omit("Email"), upsert.Select("ID", "Name")} {
				e, ok := isCapture(tx.Create(&Member{ID: 2, Email: "e", Name: "m"}).Error)
				require.True(t, ok)
				assert.Contains(t, e.Cause, "leaves out email")
			}
			assert.Equal(t, 1, count(t, g, &Member{}))
			assert.Empty(t, events(t, g))
			idle(t, g)
		})
	}
}

// Booth has another aggregate id than its key, and a unique column.
type Booth struct {
	_     gormoutbox.Emit `outbox:"aggregate=booth,key=house"`
	ID    int             `gorm:"autoIncrement:false"`
	House string          `gorm:"size:20"`
	No    string          `gorm:"size:20;uniqueIndex"`
}

// A row that is met by another column than the key may have any aggregate id, and the event would hide which.
func TestUpsertMovesARowThatCannotBeTold(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Booth{})
			require.NoError(t, ignoring(g).Create(&Booth{ID: 1, House: "a", No: "7"}).Error)
			e, ok := isCapture(g.Clauses(clause.OnConflict{
				Columns: []clause.Column{{Name: "no"}}, DoUpdates: clause.AssignmentColumns([]string{"house"}),
			}).Create(&Booth{ID: 2, House: "b", No: "7"}).Error)
			require.True(t, ok)
			assert.Contains(t, e.Cause, "may change the aggregate id")
			var row Booth
			require.NoError(t, g.First(&row).Error)
			assert.Equal(t, Booth{ID: 1, House: "a", No: "7"}, row)
			assert.Empty(t, events(t, g))
		})
	}
}

// Slot has a unique column with a default.
type Slot struct {
	_    gormoutbox.Emit `outbox:"aggregate=slot"`
	ID   int             `gorm:"autoIncrement:false"`
	Code string          `gorm:"size:20;uniqueIndex;default:free"`
	Name string
}

// A zero value meets the row that has the column's default.
func TestUpsertMeetsARowByADefault(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Slot{})
			require.NoError(t, ignoring(g).Create(&Slot{ID: 1, Code: "free", Name: "a"}).Error)
			require.NoError(t, g.Clauses(clause.OnConflict{DoUpdates: clause.AssignmentColumns([]string{"name"})}).
				Create(&Slot{ID: 2, Name: "b"}).Error)
			all := events(t, g)
			require.Equal(t, []string{"slot.upserted"}, types(all))
			assert.JSONEq(t, `{"ID":1,"Code":"free","Name":"b"}`, string(all[0].Payload))
			assert.Equal(t, 1, count(t, g, &Slot{}))
		})
	}
}

// Guest has a unique column that may be NULL.
type Guest struct {
	_     gormoutbox.Emit `outbox:"aggregate=guest"`
	ID    uint
	Email *string `gorm:"size:100;uniqueIndex"`
}

// NULL meets no row, so that nothing but the number which the database makes tells the new one.
func TestUpsertWithNullInAUniqueColumn(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{}, &Guest{})
			for range 2 {
				require.NoError(t, g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Guest{}).Error)
			}
			assert.Equal(t, []string{"guest.created", "guest.created"}, types(events(t, g)))
		})
	}
	// Beside a row that is there the other index leaves it open what becomes of it.
	t.Run("beside another", func(t *testing.T) {
		t.Parallel()
		g := setup(t, testenv.MySQLPath(t), gormoutbox.Config{}, &Guest{})
		email := "e"
		require.NoError(t, ignoring(g).Create(&Guest{ID: 1, Email: &email}).Error)
		_, ok := isCapture(g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&[]Guest{{ID: 1, Email: &email}, {}}).Error)
		assert.True(t, ok)
		assert.Equal(t, 1, count(t, g, &Guest{}))
		assert.Empty(t, events(t, g))
	})
}

// Only an update says which columns it has assigned.
func TestUpsertHasNoChangedColumns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		o := newOrder()
		require.NoError(t, ignoring(g).Create(o).Error)
		o.Status, o.Card = "paid", "another"
		require.NoError(t, g.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "id"}}, DoUpdates: clause.AssignmentColumns([]string{"status", "card"}),
		}).Create(o).Error)
		all := events(t, g)
		require.Equal(t, []string{"order.upserted"}, types(all))
		assert.NotContains(t, all[0].headers(t), gormoutbox.HeaderChanged)
	})
}
