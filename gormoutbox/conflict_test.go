package gormoutbox_test

import (
	"database/sql"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// late makes a commit fail for orders with the status "late", in databases that check at the commit.
var late = map[string][]string{
	"postgres": {
		`CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.status = 'late' THEN RAISE EXCEPTION 'too late'; END IF; RETURN NEW; END $$`,
		`CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`,
	},
	"sqlite": {
		`CREATE TABLE statuses (name TEXT PRIMARY KEY)`,
		`CREATE TABLE checks (name TEXT REFERENCES statuses (name) DEFERRABLE INITIALLY DEFERRED)`,
		`CREATE TRIGGER late AFTER INSERT ON orders WHEN NEW.status = 'late' BEGIN INSERT INTO checks VALUES ('missing'); END`,
	},
}

// A commit that fails leaves neither row nor event, whoever commits, and a recorder keeps what it has.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB) testenv.Database{testenv.Postgres, testenv.SQLite} {
		db := make(t)
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			for _, config := range []gormoutbox.Config{{}, {WatchCommits: true}} {
				for _, skip := range []bool{false, true} {
					g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
					use(t, g, config, &Order{}, &Parcel{})
					if !g.Migrator().HasTable("marker") {
						for _, stmt := range append(late[g.Name()], "CREATE TABLE marker (id INT)") {
							require.NoError(t, g.Exec(stmt).Error)
						}
					}
					p := newParcel()
					create := func(tx *gorm.DB) error {
						o := newOrder()
						o.Status = "late"
						if err := tx.Create(p).Error; err != nil {
							return err
						}
						return tx.Create(o).Error
					}
					require.Error(t, g.Create(&Order{ID: p.ID, Status: "late"}).Error)
					require.Error(t, g.Transaction(create))
					require.Error(t, gormoutbox.Transaction(g, create))
					tx := g.Begin()
					require.NoError(t, create(tx))
					require.Error(t, tx.Commit().Error)
					tx.Rollback() // SQLite keeps the transaction
					assert.Len(t, p.RecordedEvents(), 1)
					assert.Zero(t, count(t, g, &Order{}))
					assert.Zero(t, count(t, g, &Parcel{}))
					assert.Empty(t, events(t, g))
					idle(t, g)
				}
			}
		})
	}
}

// retried runs a transaction until it commits, and says how often it ran.
func retried(g *gorm.DB, fn func(tx *gorm.DB, attempt int) error, opts ...*sql.TxOptions) (attempts int, err error) {
	for attempts < 10 {
		attempts++
		if err = g.Transaction(func(tx *gorm.DB) error { return fn(tx, attempts) }, opts...); err == nil {
			return attempts, nil
		}
	}
	return attempts, err
}

// The loser of a deadlock runs again: its first attempt leaves no event.
func TestDeadlockRetry(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB) testenv.Database{testenv.Postgres, testenv.MariaDB, testenv.MySQLPath} {
		db := make(t)
		t.Run(db.Name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, db, gormoutbox.Config{}, &Order{})
			a, b := newOrder(), newOrder()
			require.NoError(t, g.Create([]*Order{a, b}).Error)

			// Each has its first row before either asks for its second.
			var both sync.WaitGroup
			both.Add(2)
			attempts, errs := [2]int{}, [2]error{}
			var wg sync.WaitGroup
			for i, order := range [][2]*Order{{a, b}, {b, a}} {
				wg.Go(func() {
					attempts[i], errs[i] = retried(g, func(tx *gorm.DB, attempt int) error {
						add := func(o *Order) error {
							return tx.Model(&Order{ID: o.ID}).Update("amount", gorm.Expr("amount + 1")).Error
						}
						if err := add(order[0]); err != nil {
							return err
						}
						if attempt == 1 {
							both.Done()
							both.Wait()
						}
						return add(order[1])
					})
				})
			}
			wg.Wait()
			require.NoError(t, errs[0])
			require.NoError(t, errs[1])
			assert.Equal(t, 3, attempts[0]+attempts[1], "one of them lost once")
			all := events(t, g)
			require.Len(t, all, 6, "two created, two updated by each")
			idle(t, g)
		})
	}
}

// A transaction that can't be serialized runs again: its first attempt leaves no event.
func TestSerializationRetry(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.Postgres(t), gormoutbox.Config{}, &Order{})
	o := newOrder()
	require.NoError(t, g.Create(o).Error)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		before := len(events(t, g))
		attempts, err := retried(g, func(tx *gorm.DB, attempt int) error {
			var seen Order
			if err := tx.First(&seen, "id = ?", o.ID).Error; err != nil {
				return err
			}
			if attempt == 1 { // somebody else in between
				if err := g.Model(&Order{ID: o.ID}).Update("amount", seen.Amount+10).Error; err != nil {
					return err
				}
			}
			return tx.Model(&Order{ID: o.ID}).Update("amount", seen.Amount+1).Error
		}, &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		assert.Equal(t, 2, attempts)
		all := events(t, g)[before:]
		require.Len(t, all, 2)
		var row Order
		require.NoError(t, g.First(&row, "id = ?", o.ID).Error)
		assert.Contains(t, string(all[1].Payload), `"Amount":`+strconv.Itoa(row.Amount))
	}
	idle(t, g)
}
