package gormoutbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// diffRow is a row as its JSON has it, with numbers as text and times in UTC.
type diffRow map[string]any

func diffDecode(text []byte) (diffRow, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var row diffRow
	if err := d.Decode(&row); err != nil {
		return nil, err
	}
	for name, v := range row {
		if s, ok := v.(string); ok {
			if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
				row[name] = at.UTC().Format(time.RFC3339Nano)
			}
		}
	}
	return row, nil
}

func (r diffRow) String() string {
	text, err := json.Marshal(map[string]any(r))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// diffState are the rows of all tables by aggregate type and id.
type diffState map[string]map[string]diffRow

// aggregateID is what the id of the row's events has to be.
func (m *diffModel) aggregateID(row diffRow) string {
	parts := make([]string, len(m.id))
	for i, name := range m.id {
		parts[i] = fmt.Sprint(row[name])
		if len(m.id) > 1 {
			parts[i] = strings.NewReplacer(`\`, `\\`, `|`, `\|`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "|")
}

// diffRows reads all tables.
func diffRows(quiet *gorm.DB, models []*diffModel) (diffState, error) {
	state := diffState{}
	for _, m := range models {
		list := m.list()
		if err := quiet.Unscoped().Find(list).Error; err != nil {
			return nil, err
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		var raw []json.RawMessage
		if err := json.Unmarshal(text, &raw); err != nil {
			return nil, err
		}
		rows := make(map[string]diffRow, len(raw))
		for _, one := range raw {
			row, err := diffDecode(one)
			if err != nil {
				return nil, err
			}
			for _, name := range m.hidden {
				delete(row, name)
			}
			rows[m.aggregateID(row)] = row
		}
		if len(rows) != len(raw) {
			return nil, fmt.Errorf("%d rows of %s have %d aggregate ids", len(raw), m.aggregate, len(rows))
		}
		state[m.aggregate] = rows
	}
	return state, nil
}

// diffReplay applies events to tables in memory, and complains of those that can't be true.
type diffReplay struct {
	state    diffState
	models   map[string]*diffModel
	problems []string
}

func newDiffReplay(models []*diffModel) *diffReplay {
	p := &diffReplay{state: diffState{}, models: map[string]*diffModel{}}
	for _, m := range models {
		p.models[m.aggregate], p.state[m.aggregate] = m, map[string]diffRow{}
	}
	return p
}

func (p *diffReplay) apply(e storedEvent) {
	fail := func(format string, args ...any) {
		p.problems = append(p.problems, fmt.Sprintf("event %d, %s of %s: ", e.Seq, e.EventType, e.AggregateID)+fmt.Sprintf(format, args...))
	}
	m, ok := p.models[e.AggregateType]
	if !ok {
		fail("no such model")
		return
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(e.Headers), &headers); err != nil {
		fail("headers: %v", err)
		return
	}
	row, err := diffDecode(e.Payload)
	if err != nil {
		fail("payload: %v", err)
		return
	}
	if id := m.aggregateID(row); id != e.AggregateID {
		fail("its payload is of %s: %s", id, row)
	}
	rows, from := p.state[e.AggregateType], e.AggregateID
	previous, moved := headers[gormoutbox.HeaderPreviousAggregateID]
	if moved {
		from = previous
	}
	was, there := rows[from]
	kind, ok := strings.CutPrefix(e.EventType, e.AggregateType+".")
	if !ok {
		fail("its type is of another aggregate")
	}
	soft := headers[gormoutbox.HeaderSoftDelete] == "true"
	switch gormoutbox.Kind(kind) {
	case gormoutbox.Created:
		if there {
			fail("the row was there: %s, now %s", was, row)
		}
	case gormoutbox.Updated:
		if !there {
			fail("the row was not there, now %s", row)
		} else {
			m.checkUpdated(was, row, headers, moved, fail)
		}
	case gormoutbox.Deleted:
		switch {
		case !there:
			fail("the row was not there, the last one is said to be %s", row)
		case soft && row["DeletedAt"] == nil:
			fail("it is not marked as deleted: %s", row)
		case !soft && !maps.Equal(was, row):
			fail("the last row was %s, and is said to be %s", was, row)
		}
	case gormoutbox.Upserted:
	default:
		fail("of an unknown kind")
	}
	if moved {
		if _, taken := rows[e.AggregateID]; taken && !strings.EqualFold(previous, e.AggregateID) {
			fail("it moved from %s to a row that was there", previous)
		}
		delete(rows, previous)
	}
	if kind == string(gormoutbox.Deleted) && !soft {
		delete(rows, e.AggregateID)
	} else {
		rows[e.AggregateID] = row
	}
}

// checkUpdated compares what an update says of the row before with the row that the events before it made.
func (m *diffModel) checkUpdated(was, row diffRow, headers map[string]string, moved bool, fail func(string, ...any)) {
	if m.before == "" {
		return
	}
	columns := map[string]string{
		"ID": "id", "Shelf": "shelf", "No": "no", "Name": "name", "N": "n", "UpdatedAt": "updated_at", "DeletedAt": "deleted_at",
	}
	var changed []string
	for name := range row {
		if was[name] != row[name] {
			changed = append(changed, columns[name])
		}
	}
	slices.Sort(changed)
	if len(changed) == 0 && !moved {
		fail("nothing has changed: %s", row)
	}
	if got := headers[gormoutbox.HeaderChanged]; got != strings.Join(changed, ",") {
		fail("it says that %q changed, and %q did: from %s to %s", got, changed, was, row)
	}
	if m.before != "values" {
		return
	}
	old, err := diffDecode([]byte(headers[gormoutbox.HeaderPrevious]))
	if err != nil {
		fail("previous values: %v", err)
		return
	}
	for name := range row {
		v, told := old[columns[name]]
		if want := slices.Contains(changed, columns[name]); want != told || told && v != was[name] {
			fail("previous %s is %v, was %v", name, v, was[name])
		}
	}
}

// diffCompare lists the rows that differ.
func diffCompare(want, got diffState) (problems []string) {
	for _, aggregate := range slices.Sorted(maps.Keys(want)) {
		for _, id := range slices.Sorted(maps.Keys(want[aggregate])) {
			row, ok := got[aggregate][id]
			switch {
			case !ok:
				problems = append(problems, fmt.Sprintf("%s %s is a row and not among the replayed: %s", aggregate, id, want[aggregate][id]))
			case !maps.Equal(row, want[aggregate][id]):
				problems = append(problems, fmt.Sprintf("%s %s is %s and was replayed as %s", aggregate, id, want[aggregate][id], row))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(got[aggregate])) {
			if _, ok := want[aggregate][id]; !ok {
				problems = append(problems, fmt.Sprintf("%s %s is no row and was replayed as %s", aggregate, id, got[aggregate][id]))
			}
		}
	}
	return problems
}

// report asserts that steps of every kind were captured, and that neither refusals nor conflicts were most of them.
func (run *diffRun) report(t *testing.T) {
	t.Helper()
	t.Logf("%d steps, %d succeeded, %d refused; captured: %v", run.steps, run.succeeded, run.refused, run.captured)
	assert.Greater(t, run.succeeded, run.steps*6/10, "steps that succeeded, of %d", run.steps)
	assert.Less(t, run.refused, run.steps/10, "steps that were refused, of %d", run.steps)
	for kind, n := range run.kinds {
		if kind != "bypass" {
			assert.Positive(t, run.captured[kind], "steps of kind %q that were captured, of %d", kind, n)
		}
	}
}
