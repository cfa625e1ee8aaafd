package outboxtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/outboxtest"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order"`
	ID     uuid.UUID       `gorm:"type:char(36);primaryKey"`
	Status string
}

func open(t *testing.T, env testenv.Database, config gormoutbox.Config) *gorm.DB {
	t.Helper()
	db := env.Open(t)
	require.NoError(t, db.Use(gormoutbox.New(config)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&Order{}))
	return db
}

// spy is a test that may fail.
type spy struct {
	testing.TB

	failed string
}

func (s *spy) Helper() {}
func (s *spy) Fatalf(format string, args ...any) {
	s.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails says why fn failed its test, empty if it did not.
func fails(t *testing.T, fn func(t testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { fn(s) })
	wg.Wait()
	return s.failed
}

func TestRequireEvents(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env, gormoutbox.Config{Table: "own_events"})
		outboxtest.RequireEvents(t, db)
		o := &Order{ID: uuid.New(), Status: "placed"}
		require.NoError(t, db.Create(o).Error)
		require.NoError(t, gormoutbox.Append(db, gormoutbox.Event{Type: "b", Topic: "t", Payload: []byte{0, 1}, Headers: map[string]string{"h": "v"}}))
		created := outboxtest.Event{
			Type: "order.created", AggregateType: "order", AggregateID: o.ID.String(), Topic: "order.created", Payload: map[string]any{"Status": "placed"},
		}
		second := outboxtest.Event{Type: "b", Topic: "t", Payload: []byte{0, 1}, Headers: map[string]string{"h": "v"}}
		outboxtest.RequireEvents(t, db, created, second)
		outboxtest.RequireEvents(t, db.Where("1 = 0"), outboxtest.Event{Payload: o}, outboxtest.Event{})
		undo := errors.New("undo")
		require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, gormoutbox.Append(tx, gormoutbox.Event{Type: "c", Payload: json.RawMessage(`{"a":{"b":1,"c":2}}`)}))
			outboxtest.RequireEvents(t, tx, created, second, outboxtest.Event{Payload: json.RawMessage(`{"a":{"b":1}}`)})
			return undo
		}), undo)

		for name, test := range map[string]struct {
			want []outboxtest.Event
			says string
		}{
			"one more":      {[]outboxtest.Event{created}, "event 2 was not expected"},
			"one less":      {[]outboxtest.Event{created, second, {Type: "c"}}, "event 3 is missing: c"},
			"type":          {[]outboxtest.Event{created, {Type: "x"}}, `type is "b" and not "x"`},
			"aggregate":     {[]outboxtest.Event{{AggregateType: "x", AggregateID: "y"}, second}, "aggregate id is"},
			"topic":         {[]outboxtest.Event{{Topic: "x"}, second}, `topic is "order.created" and not "x"`},
			"header":        {[]outboxtest.Event{created, {Headers: map[string]string{"h": "w"}}}, `header h is "v" and not "w"`},
			"no header":     {[]outboxtest.Event{{Headers: map[string]string{"h": ""}}, second}, "header h"},
			"bytes":         {[]outboxtest.Event{created, {Payload: []byte{0}}}, "payload is"},
			"JSON":          {[]outboxtest.Event{{Payload: map[string]any{"Status": "x"}}, second}, "and has not"},
			"missing field": {[]outboxtest.Event{{Payload: map[string]any{"Other": nil}}, second}, "and has not"},
			"no JSON":       {[]outboxtest.Event{created, {Payload: 1}}, "is no JSON"},
			"unmarshalable": {[]outboxtest.Event{{Payload: func() {}}, second}, "has no JSON"},
		} {
			got := fails(t, func(t testing.TB) { outboxtest.RequireEvents(t, db, test.want...) })
			assert.Contains(t, got, test.says, name)
		}
	})
	without := testenv.SQLite(t).Open(t)
	assert.Contains(t, fails(t, func(t testing.TB) { outboxtest.RequireEvents(t, without) }), "not registered")
}

func TestDrainAndFailures(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env, gormoutbox.Config{})
		for _, name := range []string{"a", "b"} {
			require.NoError(t, gormoutbox.Append(db, gormoutbox.Event{Type: name, AggregateType: "k", AggregateID: name, Payload: name}))
		}
		broker := &outboxtest.Broker{}
		broker.FailNext(errors.New("away"), nil, errors.New("away again"))
		outboxtest.Drain(t, db, broker)
		all := broker.Published()
		require.Len(t, all, 2)
		got := []string{all[0].Topic, all[1].Topic}
		assert.ElementsMatch(t, []string{"a", "b"}, got)
		outboxtest.Drain(t, db, broker)
		assert.Len(t, broker.Published(), 2, "nothing is left")
		broker.Reset()
		assert.Empty(t, broker.Published())
		require.NoError(t, broker.Close())
	})
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env, gormoutbox.Config{})
		broker := &outboxtest.Broker{}
		require.NoError(t, gormoutbox.Append(db, gormoutbox.Event{Type: "later", Payload: "1", AvailableAt: time.Now().Add(time.Hour)}))
		for _, wait := range []time.Duration{0, 50 * time.Minute} {
			outboxtest.Advance(t, db, wait)
			outboxtest.Drain(t, db, broker)
			assert.Empty(t, broker.Published())
		}
		outboxtest.Advance(t, db, 11*time.Minute)
		outboxtest.Drain(t, db, broker)
		require.Len(t, broker.Published(), 1)
		at := broker.Published()[0].Message.Metadata.Get(gormoutbox.HeaderOccurredAt)
		occurred, err := time.Parse(time.RFC3339Nano, at)
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now().Add(-61*time.Minute), occurred, 5*time.Minute, "an hour ago")
		assert.True(t, strings.HasSuffix(at, "Z"))
		assert.Contains(t, fails(t, func(t testing.TB) { outboxtest.Advance(t, db, -1) }), "back")
	})
}
