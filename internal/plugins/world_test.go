package plugins_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// each runs fn on every database, and on MySQL's path through GORM.
func each(t *testing.T, fn func(t *testing.T, newDB func(testing.TB) testenv.Database)) {
	t.Helper()
	for _, db := range []struct {
		name  string
		newDB func(testing.TB) testenv.Database
	}{
		{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}, {"mysql", testenv.MySQLPath}, {"sqlite", testenv.SQLite},
	} {
		t.Run(db.name, func(t *testing.T) {
			t.Parallel()
			fn(t, db.newDB)
		})
	}
}

// bothOrders registers the outbox before the other plugins and after them.
func bothOrders(t *testing.T, fn func(t *testing.T, use func(g *gorm.DB, outbox gorm.Plugin, others ...gorm.Plugin))) {
	t.Helper()
	for _, first := range []bool{true, false} {
		name := "outbox last"
		if first {
			name = "outbox first"
		}
		t.Run(name, func(t *testing.T) {
			fn(t, func(g *gorm.DB, outbox gorm.Plugin, others ...gorm.Plugin) {
				all := append([]gorm.Plugin{outbox}, others...)
				if !first {
					all = append(others[:len(others):len(others)], outbox)
				}
				for _, plugin := range all {
					require.NoError(t, g.Use(plugin))
				}
			})
		})
	}
}

// quiet is the plugin without its log of transactions that it rolled back.
func quiet(config gormoutbox.Config) *gormoutbox.Plugin {
	config.Logger = slog.New(slog.DiscardHandler)
	return gormoutbox.New(config)
}

// tables makes those of the models and of the outbox, on a pool that knows no other plugin.
func tables(t *testing.T, db testenv.Database, outbox gormoutbox.Config, models ...any) *gorm.DB {
	t.Helper()
	g := db.Open(t)
	require.NoError(t, g.AutoMigrate(append(models, &Part{})...))
	setup := db.Open(t)
	require.NoError(t, setup.Use(quiet(outbox)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), setup))
	return g
}

// world is an application and what a test sees of it.
type world struct {
	// app is the *gorm.DB with the plugins.
	app *gorm.DB
	// look has none of them, and is on the database where rows and events belong.
	look *gorm.DB
	// table has the events. Defaults to the default one.
	table string
	// also is another table with events; may be empty.
	also string
	// begin is where transactions are begun. Defaults to app.
	begin *gorm.DB
	// only are the ways in which the scenario writes, by name. Defaults to all.
	only []string
	// stocked is told of rows that were made for a step; may be nil.
	stocked func(t *testing.T, rows []model)
}

func (w world) events(t *testing.T) []event {
	t.Helper()
	var all []event
	require.NoError(t, w.look.Table(cmp.Or(w.table, gormoutbox.DefaultTable)).Order("seq").Find(&all).Error)
	return all
}

// idle asserts that no connection was left in use.
func (w world) idle(t *testing.T) {
	t.Helper()
	pool, err := w.app.DB()
	require.NoError(t, err)
	assert.Zero(t, pool.Stats().InUse, "connections in use")
}

// event is a row of the outbox.
type event struct {
	Seq           int64
	AggregateType string
	AggregateID   string
	EventType     string
	Payload       []byte
	Headers       string
}

func (e event) headers(t *testing.T) map[string]string {
	t.Helper()
	var h map[string]string
	require.NoError(t, json.Unmarshal([]byte(e.Headers), &h))
	return h
}

func (e event) id(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(e.AggregateID)
	require.NoError(t, err)
	return id
}

// rejecting makes the database refuse events, by its dialect; accepting undoes it.
var (
	rejecting = map[string][]string{
		"postgres": {
			`CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'rejected'; END $$`,
			`CREATE TRIGGER reject BEFORE INSERT ON ? FOR EACH ROW EXECUTE FUNCTION reject()`,
		},
		"mysql":  {"CREATE TRIGGER reject BEFORE INSERT ON ? FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'rejected'"},
		"sqlite": {"CREATE TRIGGER reject BEFORE INSERT ON ? BEGIN SELECT RAISE(ABORT, 'rejected'); END"},
	}
	accepting = map[string]string{
		"postgres": "DROP FUNCTION reject CASCADE", "mysql": "DROP TRIGGER reject", "sqlite": "DROP TRIGGER reject",
	}
)
