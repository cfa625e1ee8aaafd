package dedup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// alike are ids that the usual collations take for one, or that cutting makes one.
var alike = []string{
	"aBc", "AbC", "aBc ", " aBc", "äBc", "a\u0308Bc", "aBc\t", "aBc\u00a0", "é", "e\u0301", "ß", "ss", "😀", "😁", "0", "00",
	strings.Repeat("x", 254) + "a", strings.Repeat("x", 254) + "A", strings.Repeat("ü", 127) + "a",
}

// distinct delivers every id twice and counts the handler's runs.
func distinct(t *testing.T, d *dedup.Deduplicator, ids []string) (runs int) {
	t.Helper()
	for range 2 {
		for _, id := range ids {
			_, err := d.Middleware(consumer(func(*message.Message) error { runs++; return nil }))(message.NewMessage(id, nil))
			require.NoError(t, err, "%q", id)
		}
	}
	return runs
}

func TestIDsAreComparedByteByByte(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		assert.Equal(t, 3, distinct(t, b.d, []string{"aBc", "AbC", "aBc "}))
		assert.Equal(t, len(alike)-3, distinct(t, b.d, alike))

		// Consumers too.
		runs := 0
		for _, name := range []string{"aBc", "AbC", "aBc "} {
			d, err := dedup.New(b.db, dedup.Config{Consumer: name})
			require.NoError(t, err)
			runs += distinct(t, d, []string{"m1"})
		}
		assert.Equal(t, 3, runs)
	})
}

// The test above would not pass with a table that was made without care, and
// Check says so of such a table.
func TestDefaultCollationsTakeIDsForOne(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fresh   func(testing.TB) testenv.Database
		before  string
		typ     string
		runs    int
		problem string
	}{
		"mariadb": {testenv.MariaDB, "ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "VARCHAR(255)", 1, "is varchar(255)"},
		"sqlite":  {testenv.SQLite, "SELECT 1", "TEXT COLLATE NOCASE", 2, "is COLLATE NOCASE"},
		"postgres": {
			testenv.Postgres, "CREATE COLLATION naive (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
			"varchar(255) COLLATE naive", 2, "is COLLATE naive",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := tt.fresh(t).Open(t)
			require.NoError(t, db.Exec(tt.before).Error)
			require.NoError(t, dedup.MigrateTable(t.Context(), db, "naive"))
			require.NoError(t, db.Exec("DROP TABLE naive").Error)
			require.NoError(t, db.Exec("CREATE TABLE naive (consumer "+tt.typ+" NOT NULL, event_id "+tt.typ+
				" NOT NULL, processed_at TIMESTAMP, PRIMARY KEY (consumer, event_id))").Error)
			require.NoError(t, db.Exec("CREATE INDEX naive_processed_at ON naive (processed_at)").Error)

			d, err := dedup.New(db, dedup.Config{Consumer: "stock", Table: "naive"})
			require.NoError(t, err)
			assert.Equal(t, tt.runs, distinct(t, d, []string{"aBc", "AbC", "aBc "}), "three ids, so %d lost", 3-tt.runs)

			schemaErr, ok := errors.AsType[*dedup.SchemaError](dedup.CheckTable(t.Context(), db, "naive"))
			require.True(t, ok)
			require.Len(t, schemaErr.Problems, 2)
			assert.Contains(t, schemaErr.Problems[0], "column naive.consumer "+tt.problem)
			assert.Contains(t, schemaErr.Problems[1], "column naive.event_id "+tt.problem)
		})
	}
}

func TestUnusableKeysAreRefused(t *testing.T) {
	t.Parallel()
	broken := errors.New("no header")
	byHeader := func(msg *message.Message) (string, error) {
		if id := msg.Metadata.Get("id"); id != "" {
			return id, nil
		}
		return "", broken
	}
	tests := map[string]struct {
		consumer string
		id       string
		find     dedup.MessageIDFunc
		want     error
	}{
		"empty id":              {"stock", "", nil, dedup.ErrNoMessageID},
		"256 bytes":             {"stock", strings.Repeat("x", 256), nil, dedup.ErrKeyTooLong},
		"256 bytes, 128 runes":  {"stock", strings.Repeat("ü", 128), nil, dedup.ErrKeyTooLong},
		"NUL":                   {"stock", "a\x00b", nil, dedup.ErrKeyText},
		"not UTF-8":             {"stock", "a\xffb", nil, dedup.ErrKeyText},
		"no consumer":           {"", "m1", nil, dedup.ErrNoConsumer},
		"failing MessageIDFunc": {"stock", "m1", byHeader, broken},
	}
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { // not parallel: records are counted below
			d, err := dedup.New(b.db, dedup.Config{Consumer: tt.consumer, MessageID: tt.find})
			require.NoError(t, err)
			_, err = d.Middleware(consumer(forbidden(t)))(message.NewMessage(tt.id, nil))
			require.ErrorIs(t, err, tt.want)
			assert.True(t, strings.HasPrefix(err.Error(), "dedup: "), err.Error())
			assert.Less(t, len(err.Error()), 400)
			keyErr, ok := errors.AsType[*dedup.KeyError](err)
			assert.Equal(t, tt.find == nil, ok)
			if ok && tt.consumer != "" {
				assert.Equal(t, "message id", keyErr.Part)
				assert.Equal(t, tt.id, keyErr.Value)
			}
			assert.Zero(t, b.records(t))
		})
	}
	d, err := dedup.New(b.db, dedup.Config{Consumer: "stock", MessageID: byHeader})
	require.NoError(t, err)
	for _, uuid := range []string{"1", "2"} {
		msg := message.NewMessage(uuid, nil)
		msg.Metadata.Set("id", "same")
		_, err := d.Middleware(consumer(write))(msg)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, b.effects(t))
}

// Whatever the driver is told, it must tell a new record from a duplicate.
func TestDriverConfigurations(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fresh func(testing.TB) testenv.Database
		dsn   []string
	}{
		"postgres": {testenv.Postgres, []string{
			"", "&default_query_exec_mode=simple_protocol", "&default_query_exec_mode=exec", "&default_query_exec_mode=describe_exec",
		}},
		"mariadb": {testenv.MariaDB, []string{
			"", "&clientFoundRows=true", "&interpolateParams=true", "&clientFoundRows=true&interpolateParams=true", "&multiStatements=true&clientFoundRows=true",
			"&charset=latin1", "&sql_mode=%27%27", "&sql_mode=%27ANSI_QUOTES%27", "&collation=utf8mb4_unicode_ci&interpolateParams=true",
		}},
		"mysql":  {testenv.MySQLPath, []string{"", "&clientFoundRows=true"}},
		"sqlite": {testenv.SQLite, []string{"", "&_txlock=deferred"}},
	}
	configs := map[string]gorm.Config{
		"plain": {}, "prepared": {PrepareStmt: true}, "no default transaction": {SkipDefaultTransaction: true}, "translated": {TranslateError: true},
	}
	for name, tt := range tests {
		for _, dsn := range tt.dsn {
			for kind, config := range configs {
				t.Run(name+dsn+" "+kind, func(t *testing.T) {
					t.Parallel()
					env := tt.fresh(t)
					env.DSN += dsn
					b := setup(t, env, dedup.Config{}, &config)
					require.ErrorIs(t, b.deliver(t.Context(), "aBc", fails), errHandler)
					for _, id := range []string{"aBc", "AbC", "aBc ", "ü", "😀"} {
						require.NoError(t, b.deliver(t.Context(), id, write))
						require.NoError(t, b.deliver(t.Context(), id, forbidden(t)))
					}
					assert.EqualValues(t, 5, b.effects(t))
					assert.Equal(t, dedup.Stats{Committed: 5, Duplicates: 5, Failed: 1}, b.d.Stats())
					b.idle(t)
				})
			}
		}
	}
}
