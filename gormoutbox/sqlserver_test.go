package gormoutbox_test

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
	// refused: a *CaptureError.
	refused bool
	// fails: an error of GORM or the database, the same without the plugin.
	fails bool
	// foreign says that GORM itself sends what SQL Server does not understand, with and without the plugin.
	foreign bool
}

var (
	msBegin    = msStep{token: "BEGIN"}
	msCommit   = msStep{token: "COMMIT"}
	msRollback = msStep{token: "ROLLBACK"}
)

// msTx is a transaction of GORM around one statement of the user.
func msTx(steps ...msStep) []msStep { return slices.Concat([]msStep{msBegin}, steps, []msStep{msCommit}) }

// msUndone is one that is rolled back.
func msUndone(steps ...msStep) []msStep {
	return slices.Concat([]msStep{msBegin}, steps, []msStep{msRollback})
}

func msTable(model any) string {
	s, err := schema.Parse(model, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	return s.Table
}

// msInsert is an INSERT of the user; of the rows what its OUTPUT clause names is returned.
func msInsert(rows ...any) msStep {
	return msStep{token: "INSERT " + msTable(rows[0]), rows: rows, affected: int64(len(rows))}
}

// msMerge is an upsert that wrote these rows.
func msMerge(model any, rows ...any) msStep {
	return msStep{token: "MERGE " + msTable(model), rows: rows, affected: int64(len(rows))}
}

func msUpdate(model any, n int64) msStep {
	return msStep{token: "UPDATE " + msTable(model), affected: n}
}

func msDelete(model any, n int64) msStep {
	return msStep{token: "DELETE " + msTable(model), affected: n}
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

// msNow is the clock of GORM, so that two runs send the same.
func msNow() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// msScript answers the statements of one run.
type msScript struct {
	mu    sync.Mutex
	steps []msStep // still to come
}

var errUnexpected = errors.New("unexpected statement")

func (s *msScript) answer(query string, _ []driver.Value) ([]string, [][]driver.Value, int64, error) {
	switch token := msToken(query); token {
	case "BEGIN", "COMMIT", "ROLLBACK", "SAVE":
		return nil, nil, 0, nil
	case "PARTITIONS":
		return []string{"n", "version", "events"}, [][]driver.Value{{int64(msPartitions), int64(1), int64(0)}}, 0, nil
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.steps) == 0 || s.steps[0].token != token {
			return nil, nil, 0, fmt.Errorf("%w %s", errUnexpected, token)
		}
		step := s.steps[0]
		s.steps = s.steps[1:]
		if step.err != nil {
			return nil, nil, 0, step.err
		}
		columns, rows := msAnswer(query, step.rows)
		return columns, rows, step.affected, nil
	}
}

const msPartitions = 16

var (
	msWrites = regexp.MustCompile(`^(?:SET IDENTITY_INSERT \S+ ON;)?(INSERT INTO|MERGE INTO|UPDATE|DELETE FROM) (?:"\w+"\.)?"(\w+)"`)
	msReads  = regexp.MustCompile(`^SELECT .*? FROM (?:"\w+"\.)?"(\w+)"( WITH \(UPDLOCK, ROWLOCK, HOLDLOCK\) WHERE)?`)
	msOutput = regexp.MustCompile(`OUTPUT (?:INSERTED|DELETED)\.\*|(?:INSERTED|DELETED)\."(\w+)"`)
)

// msToken says what a statement is.
func msToken(query string) string {
	if strings.HasPrefix(query, "SELECT (SELECT COUNT(*)") {
		return "PARTITIONS"
	}
	if strings.HasPrefix(query, "SAVE TRANSACTION") {
		return "SAVE"
	}
	if m := msWrites.FindStringSubmatch(query); m != nil {
		verb, _, _ := strings.Cut(m[1], " ")
		return verb + " " + m[2]
	}
	if m := msReads.FindStringSubmatch(query); m != nil {
		if m[2] != "" {
			return "HOLD " + m[1]
		}
		return "SELECT " + m[1]
	}
	return query
}

// msAnswer is the result of a query: the columns that an OUTPUT clause names, or all.
func msAnswer(query string, models []any) (columns []string, rows [][]driver.Value) {
	if len(models) == 0 {
		return nil, nil
	}
	var named []string
	if msWrites.MatchString(query) {
		all := false
		for _, m := range msOutput.FindAllStringSubmatch(query, -1) {
			all = all || m[1] == ""
			named = append(named, m[1])
		}
		if len(named) == 0 {
			return nil, nil // not a query
		}
		if all {
			named = nil
		}
	}
	for i, model := range models {
		names, values := msRow(model)
		var row []driver.Value
		for j, name := range names {
			if named == nil || slices.Contains(named, name) {
				row = append(row, values[j])
				if i == 0 {
					columns = append(columns, name)
				}
			}
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// msRow is a model as the database would return it.
func msRow(model any) (columns []string, values []driver.Value) {
	s, err := schema.Parse(model, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	for _, name := range s.DBNames {
		v, _ := s.FieldsByDBName[name].ValueOf(context.Background(), reflect.ValueOf(model).Elem())
		value, err := driver.DefaultParameterConverter.ConvertValue(v)
		if err != nil {
			panic(err)
		}
		columns, values = append(columns, name), append(values, value)
	}
	return columns, values
}

// msKey is the primary key of a model, as arguments and as the id of an aggregate.
func msKey(model any) (values []driver.Value, id string) {
	s, err := schema.Parse(model, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	var parts []string
	for _, f := range s.PrimaryFields {
		v, _ := f.ValueOf(context.Background(), reflect.ValueOf(model).Elem())
		value, err := driver.DefaultParameterConverter.ConvertValue(v)
		if err != nil {
			panic(err)
		}
		values, parts = append(values, value), append(parts, fmt.Sprint(value))
	}
	return values, strings.Join(parts, "|")
}

// msOpen opens GORM on a recorder whose answers are those of the steps.
func msOpen(t *testing.T, plugin bool, steps []msStep, config gorm.Config) (*gorm.DB, *testenv.Recorder) {
	t.Helper()
	script := &msScript{}
	config.NowFunc = msNow
	g, recorder := testenv.SQLServer(t, script.answer, &config)
	if plugin {
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Models: append(allAnnotated(), &Draft{}, &Made{}, &Part{}, &Wide{})})))
		// The partition count is read with the first event.
		script.steps = []msStep{{token: "INSERT outbox_events", affected: 1}}
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "first", Payload: "1"}))
	}
	script.steps = slices.DeleteFunc(slices.Clone(steps), func(s msStep) bool {
		return slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK", "SAVE"}, s.token) || !plugin && s.plugin
	})
	recorder.Reset()
	return g, recorder
}

// runMSPaths runs each path without the plugin, with it, and with it in a transaction of the user.
func runMSPaths(t *testing.T, paths []msPath) {
	t.Helper()
	for _, p := range paths {
		t.Run(p.id, func(t *testing.T) {
			t.Parallel()
			p.check(t)
		})
	}
}

func (p msPath) check(t *testing.T) {
	t.Helper()
	g, recorder := msOpen(t, true, p.steps, gorm.Config{})
	captured := p.run(g)
	sent := recorder.Statements()
	require.Equal(t, msTokens(p.steps), msSent(sent), "error: %v", captured.err)
	idle(t, g)
	for _, s := range sent {
		p.lint(t, s)
	}
	p.judge(t, captured)
	for i, step := range p.steps {
		step.check(t, sent[i])
	}
	if !p.refused {
		plain, without := p.plain(t)
		assert.Equal(t, plain, captured, "what the user has, without and with the plugin")
		p.compare(t, without, sent)
	}

	// In a transaction of the user, who ignores the error: what was refused has not begun.
	g, recorder = msOpen(t, true, p.steps, gorm.Config{})
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
		p.judge(t, p.run(tx))
		return nil
	}))
	assert.Equal(t, slices.Concat([]string{"BEGIN"}, msInner(msTokens(p.steps)), []string{"COMMIT"}),
		slices.DeleteFunc(msSent(recorder.Statements()), func(token string) bool { return token == "SAVE" }), "in a transaction of the user")
}

func (p msPath) judge(t *testing.T, got msOutcome) {
	t.Helper()
	switch {
	case p.refused:
		refusal, ok := isCapture(got.err)
		require.True(t, ok, "want a CaptureError, got: %v", got.err)
		assert.NotEmpty(t, refusal.Cause)
		assert.NotEmpty(t, refusal.Cure)
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
	g, recorder := msOpen(t, false, p.steps, gorm.Config{})
	out := p.run(g)
	own := slices.DeleteFunc(slices.Clone(p.steps), func(s msStep) bool { return s.plugin })
	require.Equal(t, msTokens(own), msSent(recorder.Statements()), "without the plugin; error: %v", out.err)
	return out, recorder.Statements()
}

// compare asserts that the plugin changes no statement of the user, unless it narrows it to the rows that it holds.
func (p msPath) compare(t *testing.T, without, with []testenv.Statement) {
	t.Helper()
	var held []any
	holding := false
	for i, step := range p.steps {
		if strings.HasPrefix(step.token, "HOLD ") {
			held, holding = step.rows, true
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
		for _, row := range s.rows {
			key, id := msKey(row)
			for _, v := range key {
				assert.Contains(t, sent.Args, v, "%s does not ask for row %s", sent.SQL, id)
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

var msEventInsert = regexp.MustCompile(`^INSERT INTO "outbox_events" \(part, id, aggregate_type, aggregate_id, event_type, topic, payload, headers, available_at\) ` +
	`VALUES (?:\(@p\d+,@p\d+,@p\d+,@p\d+,@p\d+,@p\d+,@p\d+,@p\d+,NULL\),?)+$`)

// msWritten are the events of an INSERT, with the partition as Seq.
func msWritten(t *testing.T, s testenv.Statement) []storedEvent {
	t.Helper()
	require.Regexp(t, msEventInsert, s.SQL)
	require.Zero(t, len(s.Args)%8)
	var out []storedEvent
	for a := range slices.Chunk(s.Args, 8) {
		out = append(out, storedEvent{
			Seq: a[0].(int64), ID: a[1].(string), AggregateType: a[2].(string), AggregateID: a[3].(string), EventType: a[4].(string),
			Topic: a[5].(string), Payload: a[6].([]byte), Headers: a[7].(string),
		})
	}
	return out
}

var (
	msPlaceholder = regexp.MustCompile(`@p(\d+)`)
	msForeign     = regexp.MustCompile("(?i)\\bLIMIT\\b|FOR UPDATE|\\bRETURNING\\b|ON CONFLICT|ON DUPLICATE|[?`]|\\$\\d")
	// SQL Server has no lists of tuples.
	msTuples = regexp.MustCompile(`\) IN \(\(`)
)

// lint asserts that a statement is SQL that SQL Server could understand.
func (p msPath) lint(t *testing.T, s testenv.Statement) {
	t.Helper()
	assert.Equal(t, 1, s.Conn, "connection of %s", s.SQL)
	assert.NotRegexp(t, msForeign, s.SQL)
	if !p.foreign {
		assert.NotRegexp(t, msTuples, s.SQL)
	}
	msLimits(t, s)
}

// msLimits asserts that placeholders are numbered and within the limits of the server. Two
// of the 2,100 are the driver's: the text and the declaration of the others.
func msLimits(t *testing.T, s testenv.Statement) {
	t.Helper()
	used := map[int]bool{}
	for _, m := range msPlaceholder.FindAllStringSubmatch(s.SQL, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		used[n] = true
	}
	assert.Len(t, used, len(s.Args), "placeholders of %.300s", s.SQL)
	for n := range s.Args {
		assert.True(t, used[n+1], "@p%d is not in %.300s", n+1, s.SQL)
	}
	assert.LessOrEqual(t, len(s.Args), 2098, "parameters of %.300s", s.SQL)
	if strings.HasPrefix(s.SQL, "INSERT") {
		_, values, _ := strings.Cut(s.SQL, " VALUES ")
		assert.LessOrEqual(t, strings.Count(values, "("), 1000, "rows of %.300s", s.SQL)
	}
}

func msTokens(steps []msStep) []string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = s.token
	}
	return out
}

func msSent(statements []testenv.Statement) []string {
	out := make([]string, len(statements))
	for i, s := range statements {
		out[i] = msToken(s.SQL)
	}
	return out
}

// msInner are the statements inside of transactions.
func msInner(tokens []string) []string {
	return slices.DeleteFunc(slices.Clone(tokens), func(token string) bool {
		return slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK", "SAVE"}, token)
	})
}
