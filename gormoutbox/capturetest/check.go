package capturetest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// check runs a case in a mode on both sides.
func (p *pair) check(t *testing.T, c Case, m mode) {
	t.Helper()
	want := c.Expect.For(p.variants...)
	p.moveOn()
	p.captured.prepare(t, c)
	before := p.captured.read(t)
	got := p.captured.run(c, m)
	if got.panicked != nil {
		t.Fatalf("panic: %v", got.panicked)
	}
	if err := p.captured.idle(0); err != nil {
		t.Errorf("with the plugin %v", err)
	}
	after := p.captured.read(t)
	events, err := p.captured.storedEvents()
	if err != nil {
		t.Fatalf("reading the events: %v", err)
	}
	// Without a transaction of GORM's or the user's, the plugin may have one for all statements or one for each.
	kept := want.Kept != nil && (m.inTx || m.skips(p.captured.db) && len(events) > 0)
	switch want.Result {
	case Refused, Misconfigured:
		checkRefusal(t, want.Result, got.err)
		if got.txErr != nil {
			t.Errorf("the transaction does not go on after a refusal: %v", got.txErr)
		}
		if kept {
			p.checkEvents(t, want.Kept, false, events, before, after)
			p.checkComplete(t, events, before, after)
			return
		}
		if d := difference("rows", before.raw, after.raw); d != "" {
			t.Errorf("a refused write changed: %s", d)
		}
		p.checkEvents(t, nil, false, events, before, after)
		return
	case Captured:
		if got.err != nil {
			t.Errorf("error: %v", got.err)
		}
		p.checkEvents(t, want.Events, want.AnyOrder, events, before, after)
		if !want.Unseen {
			p.checkComplete(t, events, before, after)
		}
	case Fails:
		if got.err == nil {
			t.Error("no error")
		}
		if kept {
			p.checkEvents(t, want.Kept, false, events, before, after)
			p.checkComplete(t, events, before, after)
		} else {
			p.checkEvents(t, nil, false, events, before, after)
		}
	default:
		t.Fatalf("no expectation for %v", p.variants)
	}
	p.compare(t, c, m, got, after, want.AnyOrder)
}

// compare runs the case without the plugin. With anyOrder the database decides in which order it returns rows.
func (p *pair) compare(t *testing.T, c Case, m mode, got ran, after contents, anyOrder bool) {
	t.Helper()
	p.plain.prepare(t, c)
	plain := p.plain.run(c, m)
	if plain.panicked != nil {
		if err := p.plain.idle(10 * time.Second); err != nil {
			t.Fatalf("without the plugin %v", err)
		}
	}
	if anyOrder {
		sortLists(plain.values)
		sortLists(got.values)
	}
	for _, pair := range []struct {
		what      string
		want, got any
	}{
		{"the panic", fmt.Sprint(plain.panicked), "<nil>"},
		{"the error", p.plain.errorText(plain.err), p.captured.errorText(got.err)},
		{"the transaction's error", p.plain.errorText(plain.txErr), p.captured.errorText(got.txErr)},
		{"RowsAffected", plain.rows, got.rows},
		{"the values", plain.values, got.values},
		{"the rows", p.plain.read(t).raw, after.raw},
	} {
		if d := difference(pair.what, pair.want, pair.got); d != "" {
			t.Errorf("without the plugin and with it: %s", d)
		}
	}
}

func (s *side) errorText(err error) string {
	if err == nil {
		return ""
	}
	text := addresses.ReplaceAllString(err.Error(), "0x")
	if s.schema != "" {
		text = strings.ReplaceAll(text, s.schema, "database")
	}
	return text
}

// addresses are of pointers that GORM prints.
var addresses = regexp.MustCompile(`0x[0-9a-f]+`)

func (s *side) prepare(t *testing.T, c Case) {
	t.Helper()
	err := s.reset(func(tx *gorm.DB) error {
		for _, v := range c.prepare {
			if err := tx.Create(fresh(v)).Error; err != nil {
				return err
			}
		}
		if c.setUp != nil {
			return c.setUp(tx)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("preparing the rows: %v", err)
	}
}

func (s *side) read(t *testing.T) contents {
	t.Helper()
	c, err := s.contents()
	if err != nil {
		t.Fatalf("reading the rows: %v", err)
	}
	return c
}

func checkRefusal(t *testing.T, want Result, err error) {
	t.Helper()
	if want == Misconfigured {
		if e, ok := errors.AsType[*gormoutbox.ConfigError](err); !ok || e.Cause == "" || e.Cure == "" {
			t.Errorf("want a ConfigError with a cause and a cure, got: %v", err)
		}
		return
	}
	if e, ok := errors.AsType[*gormoutbox.CaptureError](err); !ok || e.Cause == "" || e.Cure == "" {
		t.Errorf("want a CaptureError with a cause and a cure, got: %v", err)
	}
}

// checkEvents compares types, ids and order, then each event with its row.
func (p *pair) checkEvents(t *testing.T, want []Event, anyOrder bool, got []storedEvent, before, after contents) {
	t.Helper()
	wanted, found := make([]string, len(want)), make([]string, len(got))
	for i, e := range want {
		wanted[i] = e.Type + " " + p.resolve(e.ID)
	}
	for i, e := range got {
		found[i] = e.EventType + " " + e.AggregateID
		if i < len(want) && want[i].ID == "*" {
			found[i] = e.EventType + " *"
		}
	}
	if anyOrder {
		slices.Sort(wanted)
		slices.Sort(found)
		want = slices.SortedFunc(slices.Values(want), func(a, b Event) int { return strings.Compare(a.Type+" "+p.resolve(a.ID), b.Type+" "+p.resolve(b.ID)) })
		got = slices.SortedStableFunc(slices.Values(got), func(a, b storedEvent) int {
			return strings.Compare(a.EventType+" "+a.AggregateID, b.EventType+" "+b.AggregateID)
		})
	}
	if !slices.Equal(wanted, found) {
		t.Errorf("events\nwant %s\ngot  %s", strings.Join(wanted, ", "), strings.Join(found, ", "))
		return
	}
	last := map[[2]string]int{}
	for i, e := range got {
		last[[2]string{e.AggregateType, e.AggregateID}] = i
	}
	// known are the payloads of rows as the last event left them, at first those of before.
	known := map[[2]string]map[string]any{}
	for aggregate, rows := range before.rows {
		for id, row := range rows {
			known[[2]string{aggregate, id}] = row.payload
		}
	}
	for i, e := range got {
		name := e.EventType + " " + e.AggregateID
		payload, err := object(e.Payload)
		if err != nil {
			t.Errorf("%s: payload %q: %v", name, e.Payload, err)
			continue
		}
		headers, err := object([]byte(e.Headers))
		if err != nil {
			t.Errorf("%s: headers %q: %v", name, e.Headers, err)
			continue
		}
		checkAsserted(t, name, p, want[i], payload, headers)
		key := [2]string{e.AggregateType, e.AggregateID}
		row, ok := known[key]
		known[key] = payload
		if last[key] != i {
			continue
		}
		if !strings.HasSuffix(e.EventType, ".deleted") || want[i].Headers[gormoutbox.HeaderSoftDelete] != "" {
			var saved savedRow
			saved, ok = after.rows[e.AggregateType][e.AggregateID]
			row = saved.payload
		}
		if !ok {
			t.Errorf("%s: there is no such row", name)
			continue
		}
		if d := difference("payload", any(row), any(payload)); d != "" {
			t.Errorf("%s is not its row: %s", name, d)
		}
	}
}

// checkAsserted checks what the case itself says about an event.
func checkAsserted(t *testing.T, name string, p *pair, want Event, payload, headers map[string]any) {
	t.Helper()
	for field, value := range want.Fields {
		if d := difference(field, p.resolve(fmt.Sprint(value)), fmt.Sprint(payload[field])); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for header, value := range want.Headers {
		if headers[header] != p.resolve(value) {
			t.Errorf("%s: header %s: want %q, got %v", name, header, p.resolve(value), headers[header])
		}
	}
	for _, header := range []string{gormoutbox.HeaderSoftDelete, gormoutbox.HeaderPreviousAggregateID, gormoutbox.HeaderPrevious} {
		if _, ok := headers[header]; ok && want.Headers[header] == "" {
			t.Errorf("%s: header %s: %v", name, header, headers[header])
		}
	}
}

var generated = regexp.MustCompile(`#[1-9]`)

// resolve turns "#1" into the first generated key.
func (p *pair) resolve(id string) string {
	return generated.ReplaceAllStringFunc(id, func(n string) string { return p.key(int(n[1] - '0')) })
}

// checkComplete asserts that every row that changed has an event.
func (p *pair) checkComplete(t *testing.T, events []storedEvent, before, after contents) {
	t.Helper()
	seen := map[[2]string]bool{}
	for _, e := range events {
		seen[[2]string{e.AggregateType, e.AggregateID}] = true
		if headers, err := object([]byte(e.Headers)); err == nil {
			if previous, ok := headers[gormoutbox.HeaderPreviousAggregateID].(string); ok {
				seen[[2]string{e.AggregateType, previous}] = true
			}
		}
	}
	report := func(aggregate, id, what string) {
		if !seen[[2]string{aggregate, id}] {
			t.Errorf("%s %s was %s and has no event", aggregate, id, what)
		}
	}
	for aggregate, rows := range before.rows {
		for id, row := range rows {
			now, ok := after.rows[aggregate][id]
			switch {
			case !ok:
				report(aggregate, id, "deleted")
			case now.full != row.full:
				report(aggregate, id, "changed")
			}
		}
	}
	for aggregate, rows := range after.rows {
		for id := range rows {
			if _, ok := before.rows[aggregate][id]; !ok {
				report(aggregate, id, "made")
			}
		}
	}
}
