package gormoutbox

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// closure is how the compiler ends the name of a function in a function.
var closure = regexp.MustCompile(`(\.func\d+(\.\d+)*|-fm)+$`)

// compiled are the functions of a chain in the order in which GORM calls them.
func compiled(t *testing.T, db *gorm.DB, op string) []string {
	t.Helper()
	processor := reflect.ValueOf(db.Callback()).Elem().FieldByName("processors").MapIndex(reflect.ValueOf(op))
	fns := processor.Elem().FieldByName("fns")
	var names []string
	for i := range fns.Len() {
		name := runtime.FuncForPC(fns.Index(i).Pointer()).Name()
		prefix := ""
		if strings.Contains(name, "/gormoutbox.") {
			prefix = "outbox."
		}
		name = closure.ReplaceAllString(name, "")
		names = append(names, prefix+name[strings.LastIndexByte(name, '.')+1:])
	}
	return names
}

// The sorter puts a callback with one anchor behind the commit; a new version of GORM may sort otherwise.
func TestCallbackPositions(t *testing.T) {
	t.Parallel()
	const own = "outbox."
	for op, want := range map[string][]string{
		"create": {
			"BeginTransaction", own + "begin", "BeforeCreate", "SaveBeforeAssociations", own + "check", "Create",
			own + "emit", "SaveAfterAssociations", "AfterCreate", "CommitOrRollbackTransaction", own + "end",
		},
		"update": {
			"BeginTransaction", own + "begin", "SetupUpdateReflectValue", "BeforeUpdate", "SaveBeforeAssociations",
			own + "check", "Update", own + "emit", "SaveAfterAssociations", "AfterUpdate",
			"CommitOrRollbackTransaction", own + "end",
		},
		"delete": {
			"BeginTransaction", own + "begin", "BeforeDelete", "DeleteBeforeAssociations", own + "check", "Delete",
			own + "emit", "AfterDelete", "CommitOrRollbackTransaction", own + "end",
		},
	} {
		for _, skip := range []bool{false, true} {
			db := testenv.SQLite(t).Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			require.NoError(t, db.Use(New(Config{})))
			expected := want
			if skip {
				expected = nil
				for _, name := range want {
					if !strings.Contains(name, "Transaction") {
						expected = append(expected, name)
					}
				}
			}
			got := compiled(t, db, op)
			assert.Equal(t, expected, got, op)
		}
	}
}

type anchored struct {
	_    Emit `outbox:"aggregate=anchored"`
	ID   int  `gorm:"autoIncrement:false"`
	Name string
}

var afterOnly = map[string]anchor{"create": {after: "gorm:create"}, "update": {after: "gorm:update"}, "delete": {after: "gorm:delete"}}

// anchoredDB has the plugin with its emit callbacks at the given anchors.
func anchoredDB(t *testing.T, db testenv.Database, config Config, emit map[string]anchor) *gorm.DB {
	t.Helper()
	saved := New(config)
	g := db.Open(t)
	in, err := saved.instance(g)
	require.NoError(t, err)
	require.NoError(t, in.registerCallbacks(g, emit))
	require.NoError(t, Migrate(t.Context(), g))
	require.NoError(t, g.AutoMigrate(&anchored{}))
	return g
}

func counts(t *testing.T, g *gorm.DB) (rows, events int64) {
	t.Helper()
	require.NoError(t, g.Model(&anchored{}).Count(&rows).Error)
	require.NoError(t, g.Table(DefaultTable).Count(&events).Error)
	return rows, events
}

// The tests of atomicity fail if the anchor moves: with After alone, the write
// of the event comes behind the commit, and its failure leaves a row without an event.
func TestAnchorsDecideAtomicity(t *testing.T) {
	t.Parallel()
	failing := Config{Marshal: func(context.Context, Change) ([]byte, error) { return nil, errors.New("no") }}
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		right := anchoredDB(t, db, failing, emitAnchors)
		require.Error(t, right.Create(&anchored{ID: 1}).Error)
		rows, events := counts(t, right)
		assert.Zero(t, rows)
		assert.Zero(t, events)

		wrong := anchoredDB(t, db, failing, afterOnly)
		err := wrong.Create(&anchored{ID: 1}).Error
		rows, events = counts(t, wrong)
		assert.EqualValues(t, 1, rows)
		assert.Zero(t, events)
		// The guard says so instead of writing an event on its own.
		_, ok := errors.AsType[*CaptureError](err)
		assert.True(t, ok, err)

		// Inside a transaction of the user or of ours the place is still in time.
		for _, inTx := range []func() error{
			func() error {
				return wrong.Transaction(func(tx *gorm.DB) error { return tx.Create(&anchored{ID: 2}).Error })
			},
			func() error {
				return wrong.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(&anchored{ID: 2}).Error
			},
		} {
			require.Error(t, inTx())
			rows, events = counts(t, wrong)
			assert.EqualValues(t, 1, rows)
			assert.Zero(t, events)
		}
	})
}

// Another plugin may remove our anchor: we fall to the end, and refuse to write there.
func TestRemovedAnchor(t *testing.T) {
	t.Parallel()
	db := testenv.SQLite(t)
	g := anchoredDB(t, db, Config{}, emitAnchors)
	require.NoError(t, g.Callback().Create().Remove("gorm:save_after_associations"))
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error { return tx.Create(&anchored{ID: 1}).Error }))
	_, ok := errors.AsType[*CaptureError](g.Create(&anchored{ID: 2}).Error)
	assert.True(t, ok)
	_, events := counts(t, g)
	assert.EqualValues(t, 1, events)
}
