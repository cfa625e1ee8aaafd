package gormoutbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// path is a way to write with GORM. Its id is that of the list in docs of the capture.
type path struct {
	id string
	// prepare writes rows without events.
	prepare func(g *gorm.DB)
	run     func(g *gorm.DB) error
	// want are the events, in order: a list of event types, or refused, or fails.
	want []string
	// on has what differs, by database.
	on map[string][]string
	// kept are the events that stay if a user ignores the refusal in his own transaction: those of
	// statements before the refused one, whose rows stay too.
	kept []string
}

var (
	// refused: a *CaptureError, nothing is written.
	refused = []string{"refused"}
	// fails: another error of GORM or the database, and no event.
	fails = []string{"fails"}
	none  = []string{}
)

func ev(types ...string) []string { return types }

// runPaths runs each path on each database, with and without a transaction of the user.
func runPaths(t *testing.T, paths []path) {
	t.Helper()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Models: allAnnotated()}, allModels()...)
		for _, p := range paths {
			for _, inTx := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/tx=%t", p.id, inTx), func(t *testing.T) { p.check(t, g, db.Name, inTx) })
			}
		}
	})
}

func allAnnotated() []any {
	var all []any
	for _, newModel := range annotated() {
		all = append(all, newModel())
	}
	return all
}

func (p path) check(t *testing.T, g *gorm.DB, database string, inTx bool) {
	t.Helper()
	quiet := ignoring(g)
	wipe(t, quiet)
	if p.prepare != nil {
		p.prepare(quiet)
	}
	want := p.want
	if other, ok := p.on[database]; ok {
		want = other
	}
	before := snapshot(t, quiet)

	var err error
	if inTx {
		// The user ignores the error: what was refused must not have been half done.
		txErr := g.Transaction(func(tx *gorm.DB) error {
			err = p.run(tx)
			return nil
		})
		if !slices.Equal(want, fails) {
			require.NoError(t, txErr, "the transaction goes on after a refusal")
		}
	} else {
		err = p.run(g)
	}
	idle(t, g)
	all := events(t, g)

	if slices.Equal(want, refused) {
		capture, ok := errors.AsType[*gormoutbox.CaptureError](err)
		require.True(t, ok, "want a CaptureError, got: %v", err)
		assert.NotEmpty(t, capture.Cause)
		assert.NotEmpty(t, capture.Cure)
		if inTx && p.kept != nil {
			require.Equal(t, p.kept, types(all))
			truthful(t, quiet, all)
			return
		}
		assert.Equal(t, before, snapshot(t, quiet), "rows")
		assert.Empty(t, types(all))
		return
	}
	if slices.Equal(want, fails) {
		require.Error(t, err)
		assert.Empty(t, types(all))
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, types(all))
	truthful(t, quiet, all)
}

// wipe empties all tables.
func wipe(t *testing.T, quiet *gorm.DB) {
	t.Helper()
	require.NoError(t, quiet.Exec("DELETE FROM outbox_events").Error)
	require.NoError(t, quiet.Exec("DELETE FROM person_langs").Error)
	all := allModels()
	slices.Reverse(all) // children first
	for _, m := range all {
		require.NoError(t, quiet.Unscoped().Where("1 = 1").Delete(m).Error)
	}
}

// snapshot is the text of all rows of all models.
func snapshot(t *testing.T, quiet *gorm.DB) string {
	t.Helper()
	var b strings.Builder
	for _, m := range allModels() {
		var rows []map[string]any
		require.NoError(t, quiet.Unscoped().Model(m).Find(&rows).Error)
		lines := make([]string, len(rows))
		for i, row := range rows {
			text, err := json.Marshal(row)
			require.NoError(t, err)
			lines[i] = string(text)
		}
		slices.Sort(lines)
		fmt.Fprintf(&b, "%T %v\n", m, lines)
	}
	return b.String()
}

// truthful asserts that the last event of each aggregate says what the database holds.
func truthful(t *testing.T, quiet *gorm.DB, all []storedEvent) {
	t.Helper()
	last := map[string]storedEvent{}
	for _, e := range all {
		last[e.AggregateType+"/"+e.AggregateID] = e
	}
	for key, e := range maps.All(last) {
		m := annotated()[e.AggregateType]()
		require.NoError(t, json.Unmarshal(e.Payload, m), key) // with the key only for the query
		row := annotated()[e.AggregateType]()
		err := quiet.Unscoped().Where(m, primaryNames(t, quiet, m)...).Take(row).Error
		if strings.HasSuffix(e.EventType, ".deleted") {
			continue
		}
		require.NoError(t, err, key)
		want, err := json.Marshal(row)
		require.NoError(t, err)
		assert.JSONEq(t, string(without(t, want)), string(e.Payload), key)
	}
}

func primaryNames(t *testing.T, g *gorm.DB, m any) []any {
	t.Helper()
	stmt := &gorm.Statement{DB: g}
	require.NoError(t, stmt.Parse(m))
	var names []any
	for _, name := range stmt.Schema.PrimaryFieldDBNames {
		names = append(names, name)
	}
	return names
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

// seed prepares rows. The databases run in parallel, so each gets copies of its own.
func seed(values ...any) func(g *gorm.DB) {
	return func(g *gorm.DB) {
		for _, v := range values {
			text, err := json.Marshal(v)
			if err != nil {
				panic(err)
			}
			mine := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := json.Unmarshal(text, mine); err != nil {
				panic(err)
			}
			if err := g.Create(mine).Error; err != nil {
				panic(err)
			}
		}
	}
}
