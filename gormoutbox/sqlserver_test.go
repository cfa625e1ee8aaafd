package gormoutbox_test

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// No server is at hand, so the capture on SQL Server is held to what GORM's driver sends and to what is
// made of the answers: which statements, in which order and on which connection, and that events are made of the rows that
// were answered. The answers are written by hand; what a server would answer is not shown by these tests.

// msStep is a statement that has to come next, and its answer.
type msStep struct {
	// token is the verb and the table.
	token string
	// rows are pointers to models, which are returned by a query.
	rows []any
	// affected is the answer to what is no query.
	affected int64
	err      error
	// plugin says that without the plugin the statement would not be sent.
	plugin bool
	events []msEvent
}

// is says whether the step is this statement. Reads of rows that are locked already may lock them again.
func (s msStep) is(token string) bool {
	verb, table, _ := strings.Cut(s.token, " ")
	return token == s.token || s.plugin && verb == "SELECT" && token == "HOLD "+table
}

// msEvent is an event that has to be written.
type msEvent struct {
	kind    gormoutbox.Kind
	row     any
	headers map[string]string
}

// with adds a header; "changed" is looked at only where it is given.
func (e msEvent) with(name, value string) msEvent {
	e.headers = map[string]string{name: value}
	return e
}

// msOutcome is what the user has after a write.
type msOutcome struct {
	value any
	rows  int64
	err   error
}

func msDid(tx *gorm.DB, value any) msOutcome { return msOutcome{value, tx.RowsAffected, tx.Error} }

// msPath is one way to write.
type msPath struct {
	id    string
	run   func(g *gorm.DB) msOutcome
	steps []msStep
	// refused: a *CaptureError. mistaken: a *ConfigError.
	refused, mistaken bool
	// fails: an error of GORM or the database, the same without the plugin.
	fails bool
	// foreign says that GORM itself sends what SQL Server does not understand, with and without the plugin.
	foreign bool
	names   schema.NamingStrategy
}

var (
	msBegin    = msStep{token: "BEGIN"}
	msCommit   = msStep{token: "COMMIT"}
	msRollback = msStep{token: "ROLLBACK"}
)

// msTx is a transaction of GORM around one statement of the user.
func msTx(steps ...msStep) []msStep {
	return slices.Concat([]msStep{msBegin}, steps, []msStep{msCommit})
}

// msUndone is one that is rolled back.
func msUndone(steps ...msStep) []msStep {
	return slices.Concat([]msStep{msBegin}, steps, []msStep{msRollback})
}

func msTable(model any) string { return msSchema(model).Table }

// msInsert is an INSERT of the user; of the rows what its OUTPUT clause names is returned.
func msInsert(rows ...any) msStep {
	return msStep{token: "INSERT " + msTable(rows[0]), rows: rows, affected: int64(len(rows))}
}

// msMerge is an upsert that wrote these rows.
func msMerge(model any, rows ...any) msStep {
	return msStep{token: "MERGE " + msTable(model), rows: rows, affected: int64(len(rows))}
}

// msMerged is an upsert by MERGE: the rows that are there are locked before it and read again after it, and then those that are new.
func msMerged(model any, before, written, after []any, emitted ...msStep) []msStep {
	steps := []msStep{msHold(model, before...), msMerge(model, written...)}
	if len(before) > 0 {
		var again []any
		for _, old := range before {
			_, id := msKey(old)
			again = append(again, after[slices.IndexFunc(after, func(row any) bool {
				_, now := msKey(row)
				return now == id
			})])
		}
		steps = append(steps, msBack(again...))
	}
	return append(append(steps, msBack(after...)), emitted...)
}

func msUpdate(model any, n int64) msStep {
	return msStep{token: "UPDATE " + msTable(model), affected: n}
}

func msDelete(model any, n int64) msStep {
	return msStep{token: "DELETE " + msTable(model), affected: n}
}

// msRenamed are the steps with another table in place of the one that is not the outbox.
func msRenamed(table string, steps ...msStep) []msStep {
	out := slices.Clone(steps)
	for i, s := range out {
		if verb, _, ok := strings.Cut(s.token, " "); ok && s.events == nil {
			out[i].token = verb + " " + table
		}
	}
	return out
}

// msHold is the plugin's read that locks rows before the write.
func msHold(model any, rows ...any) msStep {
	return msStep{token: "HOLD " + msTable(model), rows: rows, plugin: true}
}

// msBack is the plugin's read of rows after the write.
func msBack(rows ...any) msStep {
	return msStep{token: "SELECT " + msTable(rows[0]), rows: rows, plugin: true}
}

// msRead is a query of the user.
func msRead(model any, rows ...any) msStep {
	return msStep{token: "SELECT " + msTable(model), rows: rows}
}

// msEmit is the INSERT of the events.
func msEmit(events ...msEvent) msStep {
	return msStep{token: "INSERT outbox_events", affected: int64(len(events)), events: events, plugin: true}
}

func msEvents(kind gormoutbox.Kind, rows []any) msStep {
	events := make([]msEvent, len(rows))
	for i, row := range rows {
		events[i] = msEvent{kind: kind, row: row}
	}
	return msEmit(events...)
}

func msCreated(rows ...any) msStep  { return msEvents(gormoutbox.Created, rows) }
func msUpserted(rows ...any) msStep { return msEvents(gormoutbox.Upserted, rows) }
func msUpdated(rows ...any) msStep  { return msEvents(gormoutbox.Updated, rows) }
func msDeleted(rows ...any) msStep  { return msEvents(gormoutbox.Deleted, rows) }

// msOpen opens GORM on a recorder whose answers are those of the steps.
func msOpen(t *testing.T, plugin bool, steps []msStep, config gorm.Config) (*gorm.DB, *testenv.Recorder) {
	t.Helper()
	script := &msScript{}
	config.NowFunc = msNow
	g, recorder := testenv.SQLServer(t, script.answer, &config)
	if plugin {
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Models: append(allAnnotated(), &Draft{}, &Made{}, &Part{}, &Ledger{}, &Invoice{})})))
		// The partition count is read with the first event.
		script.steps = []msStep{{token: "INSERT outbox_events", affected: 1}}
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "first", Payload: "1"}))
	}
	script.steps = slices.DeleteFunc(slices.Clone(steps), func(s msStep) bool {
		return msControl(s.token) || !plugin && s.plugin
	})
	recorder.Reset()
	return g, recorder
}

// TestSQLServerPaths runs each way to write without the plugin, with it, and with it in a transaction of the user.
func TestSQLServerPaths(t *testing.T) {
	t.Parallel()
	ids, names := map[string]bool{}, map[string]bool{}
	for _, p := range slices.Concat(msCreatePaths(), msUpsertPaths(), msSavePaths(), msUpdatePaths(), msAssociationPaths(), msDeletePaths()) {
		assert.False(t, names[p.id], "%s is there twice", p.id)
		ids[p.id[:3]], names[p.id] = true, true
		t.Run(p.id, func(t *testing.T) {
			t.Parallel()
			p.check(t)
		})
	}
	for topic, n := range map[string]int{"C": 35, "U": 12, "S": 5, "F": 4, "M": 22, "A": 12, "D": 14, "R": 1} {
		for i := range n {
			id := fmt.Sprintf("%s%02d", topic, i+1)
			assert.True(t, ids[id], "no path of %s", id)
		}
	}
}

func (p msPath) check(t *testing.T) {
	t.Helper()
	g, recorder := msOpen(t, true, p.steps, gorm.Config{NamingStrategy: p.names})
	captured := p.run(g)
	sent := recorder.Statements()
	require.Equal(t, msTokens(p.steps), msSent(p.steps, sent), "error: %v", captured.err)
	idle(t, g)
	for _, s := range sent {
		p.lint(t, s)
	}
	p.judge(t, captured)
	for i, step := range p.steps {
		step.check(t, sent[i])
	}
	if !p.refused && !p.mistaken {
		plain, without := p.plain(t)
		assert.Equal(t, plain, captured, "what the user has, without and with the plugin")
		p.compare(t, without, sent)
	}

	// In a transaction of the user, who ignores the error: what was refused has not begun.
	g, recorder = msOpen(t, true, p.steps, gorm.Config{NamingStrategy: p.names})
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
		p.judge(t, p.run(tx))
		return nil
	}))
	inner := slices.DeleteFunc(slices.Clone(p.steps), func(s msStep) bool { return msControl(s.token) })
	inner = slices.Concat([]msStep{msBegin}, inner, []msStep{msCommit})
	inTx := slices.DeleteFunc(recorder.Statements(), func(s testenv.Statement) bool { return msToken(s.SQL) == "SAVE" })
	assert.Equal(t, msTokens(inner), msSent(inner, inTx), "in a transaction of the user")
}

func (p msPath) judge(t *testing.T, got msOutcome) {
	t.Helper()
	switch {
	case p.refused:
		refusal, ok := isCapture(got.err)
		require.True(t, ok, "want a CaptureError, got: %v", got.err)
		assert.NotEmpty(t, refusal.Cause)
		assert.NotEmpty(t, refusal.Cure)
	case p.mistaken:
		_, ok := errors.AsType[*gormoutbox.ConfigError](got.err)
		require.True(t, ok, "want a ConfigError, got: %v", got.err)
	case p.fails:
		require.Error(t, got.err)
		require.NotErrorIs(t, got.err, errUnexpected)
		_, ok := isCapture(got.err)
		require.False(t, ok, got.err)
	default:
		require.NoError(t, got.err)
	}
}

// plain is the run without the plugin.
func (p msPath) plain(t *testing.T) (msOutcome, []testenv.Statement) {
	t.Helper()
	g, recorder := msOpen(t, false, p.steps, gorm.Config{NamingStrategy: p.names})
	out := p.run(g)
	own := slices.DeleteFunc(slices.Clone(p.steps), func(s msStep) bool { return s.plugin })
	require.Equal(t, msTokens(own), msSent(own, recorder.Statements()), "without the plugin; error: %v", out.err)
	return out, recorder.Statements()
}

// compare asserts that the plugin changes no statement of the user, unless it narrows it to the rows that it holds.
func (p msPath) compare(t *testing.T, without, with []testenv.Statement) {
	t.Helper()
	var held []any
	var hold testenv.Statement
	holding := false
	for i, step := range p.steps {
		if strings.HasPrefix(step.token, "HOLD ") {
			held, hold, holding = step.rows, with[i], true
		}
		if step.plugin {
			continue
		}
		plain := without[0]
		without = without[1:]
		verb, _, _ := strings.Cut(step.token, " ")
		if !holding || verb != "UPDATE" && verb != "DELETE" {
			assert.Equal(t, plain.SQL, with[i].SQL)
			assert.Equal(t, plain.Args, with[i].Args)
			holding = holding && verb != "MERGE"
			continue
		}
		holding = false
		head, _, _ := strings.Cut(plain.SQL, " WHERE ")
		assert.True(t, strings.HasPrefix(with[i].SQL, head+" WHERE "), "%s\nbecame\n%s", plain.SQL, with[i].SQL)
		assert.Equal(t, slices.Concat([]driver.Value{}, plain.Args[strings.Count(head, "@p"):]), slices.Concat([]driver.Value{}, hold.Args), "conditions of %s\nand of %s", plain.SQL, hold.SQL)
		rest := slices.Clone(with[i].Args)
		take := func(v driver.Value) {
			at := slices.IndexFunc(rest, func(have driver.Value) bool { return reflect.DeepEqual(have, v) })
			if assert.GreaterOrEqual(t, at, 0, "%v is not among the arguments of %s", v, with[i].SQL) {
				rest = slices.Delete(rest, at, at+1)
			}
		}
		for _, v := range plain.Args {
			take(v)
		}
		for _, row := range held {
			key, _ := msKey(row)
			for _, v := range key {
				take(v)
			}
		}
		if len(held) == 0 {
			assert.Contains(t, with[i].SQL, "1 = 0", "no row is held")
		}
	}
}

// check asserts what a statement of the plugin asks or writes.
func (s msStep) check(t *testing.T, sent testenv.Statement) {
	t.Helper()
	if !s.plugin {
		return
	}
	verb, _, _ := strings.Cut(s.token, " ")
	switch {
	case s.events != nil:
		got := msWritten(t, sent)
		require.Len(t, got, len(s.events))
		for i, want := range s.events {
			want.check(t, got[i])
		}
	case verb == "SELECT":
		asked := map[driver.Value]bool{}
		for _, v := range sent.Args {
			asked[v] = true
		}
		for _, row := range s.rows {
			key, id := msKey(row)
			for _, v := range key {
				assert.True(t, asked[v], "%.300s does not ask for row %s", sent.SQL, id)
			}
		}
	}
}

// check asserts that the event is made of the row that was answered.
func (e msEvent) check(t *testing.T, got storedEvent) {
	t.Helper()
	aggregate := strings.ToLower(reflect.TypeOf(e.row).Elem().Name())
	_, id := msKey(e.row)
	text, err := json.Marshal(e.row)
	require.NoError(t, err)
	assert.Equal(t, aggregate, got.AggregateType)
	assert.Equal(t, id, got.AggregateID)
	assert.Equal(t, aggregate+"."+string(e.kind), got.EventType)
	assert.JSONEq(t, string(without(t, text)), string(got.Payload))
	assert.EqualValues(t, gormoutbox.Partition(aggregate, id, msPartitions), got.Seq, "partition")
	for name, value := range e.headers {
		assert.Equal(t, value, got.headers(t)[name], "header %s", name)
	}
}
