package plugins_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/plugin/dbresolver"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// poolsOf are the pools that a resolver has opened, closed at the test's end.
func poolsOf(t *testing.T, g *gorm.DB, resolver *dbresolver.DBResolver) []*sql.DB {
	t.Helper()
	own, err := g.DB()
	require.NoError(t, err)
	var all []*sql.DB
	require.NoError(t, resolver.Call(func(pool gorm.ConnPool) error {
		db, ok := pool.(*sql.DB)
		if !ok {
			var err error
			if db, err = pool.(gorm.GetDBConnector).GetDBConn(); err != nil {
				return err
			}
		}
		if db != own {
			all = append(all, db)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
		}
		return nil
	}))
	return all
}

// replica is a database with the same tables, whose rows are stale, so that a read from it is seen.
type replica struct {
	db   testenv.Database
	look *gorm.DB
}

func newReplica(t *testing.T, db testenv.Database) replica {
	t.Helper()
	return replica{db, tables(t, db, gormoutbox.Config{}, &Plain{})}
}

// untouched asserts that nothing was written there but what the test has.
func (r replica) untouched(t *testing.T) {
	t.Helper()
	assert.Empty(t, world{look: r.look}.events(t), "events in a replica")
	var n int64
	require.NoError(t, r.look.Model(&Plain{}).Where("name <> ?", "stale").Count(&n).Error)
	assert.Zero(t, n, "rows in a replica")
	require.NoError(t, r.look.Model(&Part{}).Count(&n).Error)
	assert.Zero(t, n, "parts in a replica")
}

// mirror puts stale copies of rows into the replicas.
func mirror(replicas ...replica) func(*testing.T, []model) {
	return func(t *testing.T, rows []model) {
		t.Helper()
		stale := make([]model, len(rows))
		for i, m := range rows {
			row := *m.(*Plain)
			row.Name = "stale"
			stale[i] = &row
		}
		for _, r := range replicas {
			require.NoError(t, r.look.Create(plain.list(stale...)).Error)
		}
	}
}

// Reads of the outbox go to the source and its events are written there, in the
// transaction of the row.
func TestDBResolver(t *testing.T) {
	t.Parallel()
	for _, variant := range []struct {
		name   string
		config gorm.Config
		outbox gormoutbox.Config
	}{
		{name: "default"},
		{name: "SkipDefaultTransaction", config: gorm.Config{SkipDefaultTransaction: true}},
		{name: "PrepareStmt", config: gorm.Config{PrepareStmt: true}},
		{name: "WatchCommits and Models", outbox: gormoutbox.Config{WatchCommits: true, Models: []any{&Plain{}, &Part{}}}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
				bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
					source, r1, r2 := newDB(t), newReplica(t, newDB(t)), newReplica(t, newDB(t))
					w := world{look: tables(t, source, variant.outbox, &Plain{}), stocked: mirror(r1, r2)}
					w.app = source.Open(t, &variant.config)
					resolver := dbresolver.Register(dbresolver.Config{Replicas: []gorm.Dialector{r1.db.Dialector(), r2.db.Dialector()}})
					use(w.app, quiet(variant.outbox), resolver)
					pools := poolsOf(t, w.app, resolver)
					require.Len(t, pools, 2)
					require.NoError(t, gormoutbox.Check(t.Context(), w.app))

					team := newID().String()
					stock(t, w, plain, team)
					require.Equal(t, "stale", plain.find(t, w.app, team)[0].base().Name, "reads of the application go to a replica")

					scenario(t, w, plain)
					r1.untouched(t)
					r2.untouched(t)
					for _, pool := range pools {
						assert.Zero(t, pool.Stats().InUse, "connections of a replica in use")
					}
				})
			})
		})
	}
}

// A model with a source of its own has its events there, whatever is said of the outbox's table.
func TestDBResolverWithTheModelElsewhere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		for _, skip := range []bool{false, true} {
			bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
				base, own, third := newReplica(t, newDB(t)), newDB(t), newReplica(t, newDB(t))
				stale := newReplica(t, newDB(t))
				w := world{look: tables(t, own, gormoutbox.Config{}, &Plain{}), stocked: mirror(stale, base, third)}
				w.app = base.db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
				resolver := dbresolver.
					Register(dbresolver.Config{Replicas: []gorm.Dialector{third.db.Dialector()}}).
					Register(dbresolver.Config{
						Sources: []gorm.Dialector{own.Dialector()}, Replicas: []gorm.Dialector{stale.db.Dialector()},
					}, &Plain{}, &Part{}, "own").
					Register(dbresolver.Config{Sources: []gorm.Dialector{third.db.Dialector()}}, gormoutbox.DefaultTable)
				use(w.app, quiet(gormoutbox.Config{}), resolver)
				pools := poolsOf(t, w.app, resolver)
				require.NotEmpty(t, pools)
				w.begin = w.app.Clauses(dbresolver.Use("own"), dbresolver.Write).Session(&gorm.Session{})

				scenario(t, w, plain)
				base.untouched(t)
				third.untouched(t)
				stale.untouched(t)
				for _, pool := range pools {
					assert.Zero(t, pool.Stats().InUse, "connections in use")
				}
			})
		}
	})
}

// With several sources each row has its event beside it.
func TestDBResolverWithTwoSources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		for _, skip := range []bool{false, true} {
			bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
				first, second := newDB(t), newDB(t)
				looks := []*gorm.DB{tables(t, first, gormoutbox.Config{}, &Plain{}), tables(t, second, gormoutbox.Config{}, &Plain{})}
				app := first.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
				resolver := dbresolver.Register(dbresolver.Config{
					Sources: []gorm.Dialector{first.Dialector(), second.Dialector()}, Policy: dbresolver.StrictRoundRobinPolicy(),
				})
				use(app, quiet(gormoutbox.Config{}), resolver)
				poolsOf(t, app, resolver)

				for range 8 {
					require.NoError(t, app.Create(plain.fresh("two sources")).Error)
				}
				for _, look := range looks {
					rows, all := plain.find(t, look, "two sources"), world{look: look}.events(t)
					assert.NotEmpty(t, rows)
					require.Len(t, all, len(rows))
					for i, m := range rows {
						assert.JSONEq(t, asJSON(t, m), string(all[i].Payload))
					}
				}
			})
		}
	})
}
