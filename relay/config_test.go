package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// problems lists the fields of all ConfigErrors in err.
func problems(t testing.TB, err error) []string {
	t.Helper()
	var fields []string
	var walk func(error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e)
			}
			return
		}
		var e *relay.ConfigError
		require.ErrorAs(t, err, &e)
		assert.NotEmpty(t, e.Cause)
		assert.NotEmpty(t, e.Cure)
		assert.Contains(t, e.Error(), "relay: "+e.Field)
		fields = append(fields, e.Field)
	}
	if err != nil {
		walk(err)
	}
	return fields
}

func TestMistakesAreReportedTogether(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	_, err := relay.New(g, nil, relay.Config{
		BatchSize: -1, Lanes: -1, Lease: -1, MinPoll: -1, MaxPoll: -1, MaxAttempts: -1, MinBackoff: -1, MaxBackoff: -1,
		Park: 7, ShutdownTimeout: -1, SettleWindow: -1, ID: strings.Repeat("x", 256),
	})
	assert.ElementsMatch(t, []string{
		"publisher", "BatchSize", "Lanes", "Lease", "MinPoll", "MaxPoll", "MaxAttempts", "MinBackoff", "MaxBackoff",
		"Park", "ShutdownTimeout", "SettleWindow", "ID",
	}, problems(t, err))
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	for name, test := range map[string]struct {
		config relay.Config
		want   []string
	}{
		"defaults":                  {relay.Config{}, nil},
		"polls exchanged":           {relay.Config{MinPoll: time.Second, MaxPoll: time.Millisecond}, []string{"MinPoll"}},
		"backoffs exchanged":        {relay.Config{MinBackoff: time.Second, MaxBackoff: time.Millisecond}, []string{"MinBackoff"}},
		"only a long MinPoll":       {relay.Config{MinPoll: time.Hour}, nil},
		"only a short MaxPoll":      {relay.Config{MaxPoll: time.Millisecond}, nil},
		"only a short MaxBackoff":   {relay.Config{MaxBackoff: time.Millisecond}, nil},
		"only a long MinBackoff":    {relay.Config{MinBackoff: time.Hour}, nil},
		"too much":                  {relay.Config{BatchSize: 10_001, Lanes: 10_001, MaxAttempts: 1_000_001}, []string{"BatchSize", "Lanes", "MaxAttempts"}},
		"a lease too short":         {relay.Config{Lease: time.Millisecond}, []string{"Lease"}},
		"an id that no table takes": {relay.Config{ID: "a\x00b"}, []string{"ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := relay.New(g, newRecorder(), test.config)
			assert.Equal(t, test.want, problems(t, err))
			assert.Equal(t, err == nil, r != nil)
		})
	}
}

// other is a dialector that we don't know.
type other struct{ gorm.Dialector }

func (other) Name() string { return "oracle" }

func TestDatabasesThatWillNotDo(t *testing.T) {
	t.Parallel()
	unknown, err := gorm.Open(other{testenv.SQLite(t).Dialector()}, &gorm.Config{})
	require.NoError(t, err)
	pool, err := unknown.DB()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	tx := testenv.SQLite(t).Open(t).Begin()
	require.NoError(t, tx.Error)
	t.Cleanup(func() { tx.Rollback() })
	for name, db := range map[string]*gorm.DB{"nil": nil, "zero": {}, "unsupported": unknown, "a transaction": tx} {
		r, err := relay.New(db, newRecorder(), relay.Config{})
		assert.Nil(t, r, name)
		assert.Equal(t, []string{"db"}, problems(t, err), name)
	}
	_, err = relay.New(unknown, nil, relay.Config{Lanes: -1})
	assert.ElementsMatch(t, []string{"db", "publisher", "Lanes"}, problems(t, err), "all at once")
	assert.Contains(t, err.Error(), "oracle")
	var none *recorder
	_, err = relay.New(nil, none, relay.Config{})
	assert.ElementsMatch(t, []string{"db", "publisher"}, problems(t, err), "a nil pointer is no publisher either")
}

func TestTablesThatWillNotDo(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		run := func(config relay.Config) error {
			r, err := relay.New(g, newRecorder(), config)
			require.NoError(t, err)
			return r.Run(t.Context())
		}
		var schema *gormoutbox.SchemaError
		require.ErrorAs(t, run(relay.Config{}), &schema, "missing")
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		_, err := relay.New(g, newRecorder(), relay.Config{Table: "a.b.c"})
		assert.Equal(t, []string{"Table"}, problems(t, err))
		exec(t, g, "UPDATE outbox_schema SET version = 99")
		require.ErrorAs(t, run(relay.Config{}), &schema)
		assert.Contains(t, schema.Error(), "99")
		exec(t, g, "UPDATE outbox_schema SET version = 1")
		exec(t, g, "DROP TABLE outbox_held")
		require.ErrorAs(t, run(relay.Config{}), &schema)
		assert.Contains(t, schema.Error(), "outbox_held")
	})
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	g := open(t, testenv.SQLite(t))
	r, err := relay.New(g, newRecorder(), relay.Config{Logger: quiet})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx), "a context that has ended is a stop")
	require.ErrorIs(t, r.Run(t.Context()), relay.ErrRunning)
	assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"))
	assert.NotErrorIs(t, relay.ErrRunning, relay.ErrShutdownTimeout)
}
