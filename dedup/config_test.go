package dedup_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/utils/tests"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	db := testenv.SQLite(t).Open(t)
	dummy, err := gorm.Open(tests.DummyDialector{})
	require.NoError(t, err)
	tx := db.Begin()
	defer tx.Rollback()
	broken := db.Session(&gorm.Session{})
	_ = broken.AddError(errHandler)

	cases := map[string]struct {
		db     *gorm.DB
		config dedup.Config
		fields []string
	}{
		"nil db":              {nil, dedup.Config{}, []string{"db"}},
		"unopened db":         {&gorm.DB{}, dedup.Config{}, []string{"db"}},
		"unsupported dialect": {dummy, dedup.Config{}, []string{"db"}},
		"transaction":         {tx, dedup.Config{}, []string{"db"}},
		"db with an error":    {broken, dedup.Config{}, []string{"db"}},
		"dry run":             {db.Session(&gorm.Session{DryRun: true}), dedup.Config{}, []string{"db"}},
		"negative timeout":    {db, dedup.Config{CommitTimeout: -time.Second}, []string{"CommitTimeout"}},
		"negative limit":      {db, dedup.Config{LockTimeout: -time.Second}, []string{"LockTimeout"}},
		"negative retention":  {db, dedup.Config{Retention: -time.Second}, []string{"Retention"}},
		"retention in ns":     {db, dedup.Config{Retention: 30}, []string{"Retention"}},
		"isolation":           {db, dedup.Config{Isolation: sql.LevelReadCommitted}, []string{"Isolation"}},
		"long consumer":       {db, dedup.Config{Consumer: strings.Repeat("x", 256)}, []string{"Consumer"}},
		"NUL in consumer":     {db, dedup.Config{Consumer: "a\x00"}, []string{"Consumer"}},
		"consumer, renamed":   {db, dedup.Config{Consumer: "c", Renamed: map[string]string{"a": "b"}}, []string{"Renamed"}},
		"renamed to the same": {db, dedup.Config{Renamed: map[string]string{"a": "c", "b": "c"}}, []string{"Renamed"}},
		"renamed to nothing":  {db, dedup.Config{Renamed: map[string]string{"a": "", "": "b", "c": "\x00"}}, []string{"Renamed", "Renamed", "Renamed"}},
		"long table":          {db, dedup.Config{Table: strings.Repeat("x", 51)}, []string{"Table"}},
		"long schema":         {db, dedup.Config{Table: strings.Repeat("x", 64) + ".t"}, []string{"Table"}},
		"empty table":         {db, dedup.Config{Table: "app."}, []string{"Table"}},
		"empty schema":        {db, dedup.Config{Table: ".t"}, []string{"Table"}},
		"control character":   {db, dedup.Config{Table: "a\nb"}, []string{"Table"}},
		"everything": {
			nil,
			dedup.Config{Consumer: "\xff", Table: ".", CommitTimeout: -1},
			[]string{"db", "Consumer", "Table", "CommitTimeout"},
		},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := dedup.New(tt.db, tt.config)
			require.Error(t, err)
			assert.Nil(t, d)
			joined, ok := err.(interface{ Unwrap() []error })
			require.True(t, ok)
			var fields []string
			for _, err := range joined.Unwrap() {
				e, ok := errors.AsType[*dedup.ConfigError](err)
				require.True(t, ok)
				fields = append(fields, e.Field)
				assert.NotEmpty(t, e.Cause)
				assert.NotEmpty(t, e.Cure)
				assert.True(t, strings.HasPrefix(e.Error(), "dedup: "+e.Field+": "))
			}
			assert.Equal(t, tt.fields, fields)
		})
	}
}

func TestZeroConfigIsReady(t *testing.T) {
	t.Parallel()
	db := testenv.SQLite(t).Open(t)
	require.NoError(t, dedup.Migrate(t.Context(), db))
	_, err := dedup.New(db, dedup.Config{})
	require.NoError(t, err)
}

// Whatever the *gorm.DB given to New carries, handlers start afresh.
func TestConditionsOfTheDBAreNotInherited(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := dedup.New(b.db.WithContext(ctx).Table("elsewhere").Where("1 = 0"), dedup.Config{Consumer: "stock"})
	require.NoError(t, err)
	_, err = d.Middleware(consumer(func(msg *message.Message) error {
		if err := write(msg); err != nil {
			return err
		}
		tx := dedup.Tx(msg.Context())
		require.NoError(t, tx.Where("message_id = ?", "m1").Take(&effect{}).Error)
		return tx.Take(&effect{}).Error
	}))(message.NewMessage("m1", nil))
	require.NoError(t, err)
	assert.EqualValues(t, 1, b.effects(t))
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	// Whether a handler's second read sees what was committed since the first.
	moves := map[string]map[sql.IsolationLevel]bool{
		"postgres": {sql.LevelDefault: true, sql.LevelReadCommitted: true, sql.LevelRepeatableRead: false, sql.LevelSerializable: false},
		"mariadb":  {sql.LevelDefault: false, sql.LevelReadCommitted: true, sql.LevelRepeatableRead: false},
	}
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		for level, want := range moves[env.Name] {
			b := setup(t, env, dedup.Config{Isolation: level})
			require.NoError(t, b.deliver(t.Context(), level.String(), func(msg *message.Message) error {
				count := func() (n int64) {
					require.NoError(t, dedup.Tx(msg.Context()).Model(&effect{}).Count(&n).Error)
					return n
				}
				before := count()
				require.NoError(t, b.db.Create(&effect{}).Error)
				assert.Equal(t, want, count() > before, level)
				return nil
			}))
			require.NoError(t, b.deliver(t.Context(), level.String(), forbidden(t)))
		}
	})
}
