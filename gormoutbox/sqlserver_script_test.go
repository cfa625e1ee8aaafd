package gormoutbox_test

import (
	"context"
	"database/sql/driver"
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
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// msNow is the clock of GORM, so that two runs send the same.
func msNow() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// msScript answers the statements of one run.
type msScript struct {
	mu    sync.Mutex
	steps []msStep // still to come
}

var errUnexpected = errors.New("unexpected statement")

func (s *msScript) answer(query string, _ []driver.Value) ([]string, [][]driver.Value, int64, error) {
	switch token := msToken(query); {
	case msControl(token):
		return nil, nil, 0, nil
	case token == "PARTITIONS":
		return []string{"n", "version", "events", "first", "last"}, [][]driver.Value{{int64(msPartitions), int64(1), int64(0), int64(0), int64(msPartitions - 1)}}, 0, nil
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.steps) == 0 || !s.steps[0].is(token) {
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
	msOutput = regexp.MustCompile(`OUTPUT (?:INSERTED|DELETED)\.\*|"?(?:INSERTED|DELETED)"?\."(\w+)"`)
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
	s := msSchema(model)
	for _, name := range s.DBNames {
		columns, values = append(columns, name), append(values, msValue(s.FieldsByDBName[name], model))
	}
	return columns, values
}

var msSchemas sync.Map

func msSchema(model any) *schema.Schema {
	s, err := schema.Parse(model, &msSchemas, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	return s
}

// msValue is a column of a model as the database has it.
func msValue(f *schema.Field, model any) driver.Value {
	v, _ := f.ValueOf(context.Background(), reflect.ValueOf(model).Elem())
	value, err := driver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		panic(err)
	}
	return value
}

// msKey is the primary key of a model, as arguments and as the id of an aggregate.
func msKey(model any) (values []driver.Value, id string) {
	var parts []string
	for _, f := range msSchema(model).PrimaryFields {
		value := msValue(f, model)
		values, parts = append(values, value), append(parts, fmt.Sprint(value))
	}
	return values, strings.Join(parts, "|")
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
		if !used[n+1] {
			assert.Fail(t, "a placeholder is missing", "@p%d is not in %.300s", n+1, s.SQL)
		}
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

func msSent(steps []msStep, statements []testenv.Statement) []string {
	out := make([]string, len(statements))
	for i, s := range statements {
		out[i] = msToken(s.SQL)
		if i < len(steps) && steps[i].is(out[i]) {
			out[i] = steps[i].token
		}
	}
	return out
}

// msControl says whether a statement begins or ends a transaction or a part of one.
func msControl(token string) bool {
	return slices.Contains([]string{"BEGIN", "COMMIT", "ROLLBACK", "SAVE"}, token)
}
