package relay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// current is the name of the test's schema, which every test has to itself.
func current(t testing.TB, g *gorm.DB) string {
	t.Helper()
	var name string
	query := "SELECT DATABASE()"
	if g.Name() == "postgres" {
		query = "SELECT current_schema()"
	}
	require.NoError(t, g.Raw(query).Scan(&name).Error)
	return name
}

// TestOtherTableNames has two outboxes in one database, of which one is schema-qualified where that
// is possible. Every statement of the relay runs: publish, fail, park, redrive, release, stop.
func TestOtherTableNames(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		names := map[string]string{"plain": `Odd "name`, "qualified": "second_events"}
		if db.Name != "sqlite" {
			names["qualified"] = current(t, g) + ".second_events"
		}
		pubs := map[string]*recorder{}
		bads := map[string]*poison{}
		for name, table := range names {
			require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Name: name, Table: table, Logger: quiet})))
			pubs[name], bads[name] = newRecorder(), newPoison(name+"0")
			pubs[name].fail = bads[name].fail
		}
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		var stops []func()
		for name, table := range names {
			c := quick()
			c.Table, c.MaxAttempts = table, 2
			stops = append(stops, start(t, g, pubs[name], c))
			require.NoError(t, g.Plugins[name].(*gormoutbox.Plugin).Append(g, append(series("k", name, 3), delayed("l", name+" later", 0))...))
		}
		quote := func(name string) string {
			mark := `"`
			if db.Name == "mariadb" {
				mark = "`"
			}
			parts := strings.Split(name, ".")
			for i := range parts {
				parts[i] = mark + strings.ReplaceAll(parts[i], mark, mark+mark) + mark
			}
			return strings.Join(parts, ".")
		}
		for name, table := range names {
			tables := gormoutbox.TablesFor(table)
			eventually(t, "it is parked", func() bool {
				return countRows(t, g, "SELECT COUNT(*) FROM "+quote(tables.Held)+" WHERE until IS NULL") == 1
			})
			bads[name].cure()
			exec(t, g, "UPDATE "+quote(tables.Held)+" SET request = 'redrive'")
			pubs[name].waitFor(t, name+"2")
			pubs[name].waitFor(t, name+" later")
			assert.Equal(t, []string{name + "0", name + "1", name + "2"}, slicesWithout(pubs[name].payloads(), name+" later"))
		}
		for _, stop := range stops {
			stop()
		}
		for _, table := range names {
			tables := gormoutbox.TablesFor(table)
			assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM "+quote(tables.Partitions)+" WHERE owner <> ''"))
			assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM "+quote(tables.Relays)))
			assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM "+quote(tables.Events)+" WHERE processed_at IS NULL"))
		}
	})
}

func slicesWithout(all []string, one string) (out []string) {
	for _, s := range all {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}

// TestTheTableOfThePlugin is the relay's, without saying it twice.
func TestTheTableOfThePlugin(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Table: "app_events", Logger: quiet})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	pub := newRecorder()
	r, err := relay.New(g, pub, relay.Config{ID: "me"})
	require.NoError(t, err)
	assert.Equal(t, "relay me of app_events", r.String())
	start(t, g, pub, relay.Config{})
	add(t, g, event("k", "x"))
	pub.waitFor(t, "x")
}
