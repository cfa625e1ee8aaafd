package gormoutbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

var errMarshal = errors.New("marshaller says no")

// broken is a way in which the outbox write fails. Its config is the plugin's; breakIt is called after the
// plugin has worked once and known the tables.
type broken struct {
	name    string
	config  gormoutbox.Config
	breakIt func(t *testing.T, g *gorm.DB)
}

// brokenWays are ways in which an event can't be written: by the database, the marshaller and the headers.
func brokenWays() []broken {
	return []broken{
		{name: "no table", breakIt: func(t *testing.T, g *gorm.DB) {
			t.Helper()
			require.NoError(t, g.Exec("ALTER TABLE outbox_events RENAME TO gone").Error)
		}},
		{name: "trigger", breakIt: func(t *testing.T, g *gorm.DB) {
			t.Helper()
			for _, stmt := range rejecting[g.Name()] {
				require.NoError(t, g.Exec(stmt).Error)
			}
		}},
		{name: "failing marshaller", config: gormoutbox.Config{Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) {
			return nil, errMarshal
		}}},
		{name: "panicking marshaller", config: gormoutbox.Config{Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) {
			panic("boom")
		}}},
		{name: "reserved header", config: gormoutbox.Config{Headers: func(context.Context) map[string]string {
			return map[string]string{gormoutbox.HeaderChanged: "x"}
		}}},
	}
}

// rejecting makes the database refuse events, by its dialect.
var rejecting = map[string][]string{
	"postgres": {
		`CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'rejected'; END $$`,
		`CREATE TRIGGER reject BEFORE INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION reject()`,
	},
	"mysql":  {"CREATE TRIGGER reject BEFORE INSERT ON outbox_events FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'rejected'"},
	"sqlite": {"CREATE TRIGGER reject BEFORE INSERT ON outbox_events BEGIN SELECT RAISE(ABORT, 'rejected'); END"},
}

// mend undoes breakIt.
func mend(t *testing.T, g *gorm.DB) {
	t.Helper()
	switch {
	case g.Exec("ALTER TABLE gone RENAME TO outbox_events").Error == nil:
	case g.Name() == "postgres":
		require.NoError(t, g.Exec("DROP FUNCTION IF EXISTS reject CASCADE").Error)
	default:
		require.NoError(t, g.Exec("DROP TRIGGER IF EXISTS reject").Error)
	}
}

// eventCount counts the events also where the table was renamed.
func eventCount(t *testing.T, g *gorm.DB) int {
	t.Helper()
	var n int64
	if g.Table("outbox_events").Count(&n).Error != nil {
		require.NoError(t, g.Table("gone").Count(&n).Error)
	}
	return int(n)
}
