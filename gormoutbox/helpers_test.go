package gormoutbox_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Order is the model of most tests.
type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order"`
	ID     uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Status string
	Amount int
	Card   string `outbox:"-"`
}

func newOrder() *Order {
	return &Order{ID: uuid.Must(uuid.NewV7()), Status: "placed", Amount: 1, Card: "card-4111"}
}

// each is testenv.Each and MySQL's path through GORM, without RETURNING.
func each(t *testing.T, fn func(t *testing.T, db testenv.Database)) {
	t.Helper()
	testenv.Each(t, fn)
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		fn(t, testenv.MySQLPath(t))
	})
}

// setup migrates a fresh database and registers the plugin.
func setup(t *testing.T, db testenv.Database, config gormoutbox.Config, models ...any) *gorm.DB {
	t.Helper()
	g := db.Open(t)
	use(t, g, config, models...)
	return g
}

func use(t *testing.T, g *gorm.DB, config gormoutbox.Config, models ...any) {
	t.Helper()
	require.NoError(t, g.Use(gormoutbox.New(config)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	require.NoError(t, g.AutoMigrate(models...))
}

// ignoring is g for preparations that are not to be captured.
func ignoring(g *gorm.DB) *gorm.DB {
	return g.Session(&gorm.Session{NewDB: true, Context: gormoutbox.Ignore(context.Background())})
}

// idle asserts that no connection was left in use.
func idle(t *testing.T, g *gorm.DB) {
	t.Helper()
	pool, err := g.DB()
	require.NoError(t, err)
	assert.Zero(t, pool.Stats().InUse, "connections in use")
}

// storedEvent is an outbox row as tests look at it.
type storedEvent struct {
	Seq           int64
	ID            string
	AggregateType string
	AggregateID   string
	EventType     string
	Topic         string
	Payload       []byte
	Headers       string
}

func (e storedEvent) headers(t *testing.T) map[string]string {
	t.Helper()
	var h map[string]string
	require.NoError(t, json.Unmarshal([]byte(e.Headers), &h))
	return h
}

func events(t *testing.T, g *gorm.DB) []storedEvent {
	t.Helper()
	return eventsIn(t, g, gormoutbox.DefaultTable)
}

func eventsIn(t *testing.T, g *gorm.DB, table string) []storedEvent {
	t.Helper()
	var out []storedEvent
	require.NoError(t, g.Table(table).Order("seq").Find(&out).Error)
	return out
}

func types(all []storedEvent) []string {
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = e.EventType
	}
	return out
}

func count(t *testing.T, g *gorm.DB, model any) int {
	t.Helper()
	var n int64
	require.NoError(t, g.Unscoped().Model(model).Count(&n).Error)
	return int(n)
}

// without takes out what no event has: excluded fields, associations, and fields that are not read.
func without(t *testing.T, text []byte) []byte {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	for _, name := range []string{"Card", "Company", "Pets", "Toys", "Langs", "Ignored", "Hidden"} {
		delete(m, name)
	}
	if home, ok := m["Home"].(map[string]any); ok {
		delete(home, "Zip")
	}
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return out
}
