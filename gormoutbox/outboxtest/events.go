package outboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Event is what a test expects of an event. Zero fields are not compared.
type Event struct {
	// Type is the event type.
	Type          string
	AggregateType string
	AggregateID   string
	// Topic is where the event is published, be it its own topic or its type.
	Topic string
	// Headers must be there with these values, beside others.
	Headers map[string]string
	// Payload is compared byte for byte if it is a []byte, else with the JSON of the payload: a map, a struct, json.RawMessage. Of objects
	// only the names that it has are compared.
	Payload any
}

// Events returns all events of the outbox, published or not, in the order of their numbers. db may be a transaction.
// The test fails at once if they can't be read.
func Events(t testing.TB, db *gorm.DB) []gormoutbox.Record {
	t.Helper()
	tables := tablesOf(t, db)
	var rows []struct {
		Seq           int64
		Part          int
		ID            string
		AggregateType string
		AggregateID   string
		EventType     string
		Topic         string
		Payload       []byte
		Headers       string
		Attempts      int
	}
	err := fresh(db).Raw("SELECT seq, part, id, aggregate_type, aggregate_id, event_type, topic, payload, headers, attempts FROM " + quoted(t, db, tables.Events) + " ORDER BY seq").Scan(&rows).Error
	if err != nil {
		t.Fatalf("outboxtest: reading %s: %v", tables.Events, err)
	}
	out := make([]gormoutbox.Record, len(rows))
	for i, r := range rows {
		id, err := uuid.Parse(r.ID)
		if err != nil {
			t.Fatalf("outboxtest: event %d: %v", r.Seq, err)
		}
		out[i] = gormoutbox.Record{
			Seq: r.Seq, Part: r.Part, ID: id, AggregateType: r.AggregateType, AggregateID: r.AggregateID, EventType: r.EventType, Topic: r.Topic, Payload: r.Payload, Attempts: r.Attempts,
		}
		if err := json.Unmarshal([]byte(r.Headers), &out[i].Headers); err != nil {
			t.Fatalf("outboxtest: headers of event %d: %v", r.Seq, err)
		}
	}
	return out
}

// RequireEvents fails the test at once unless the outbox has exactly these events, in this order. Without any it must be empty.
func RequireEvents(t testing.TB, db *gorm.DB, want ...Event) {
	t.Helper()
	got := Events(t, db)
	var wrong []string
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			wrong = append(wrong, fmt.Sprintf("event %d was not expected: %s", i+1, show(got[i])))
		case i >= len(got):
			wrong = append(wrong, fmt.Sprintf("event %d is missing: %s", i+1, want[i].Type))
		default:
			for _, difference := range want[i].differences(got[i]) {
				wrong = append(wrong, fmt.Sprintf("event %d: %s", i+1, difference))
			}
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("outboxtest: the outbox has other events than expected:\n  %s", strings.Join(wrong, "\n  "))
	}
}

func show(r gormoutbox.Record) string {
	return fmt.Sprintf("%s of %s %q, payload %s", r.EventType, r.AggregateType, r.AggregateID, r.Payload)
}

func (e Event) differences(r gormoutbox.Record) (out []string) {
	topic := r.Topic
	if topic == "" {
		topic = r.EventType
	}
	for _, f := range []struct{ name, want, got string }{
		{"type", e.Type, r.EventType}, {"aggregate type", e.AggregateType, r.AggregateType}, {"aggregate id", e.AggregateID, r.AggregateID}, {"topic", e.Topic, topic},
	} {
		if f.want != "" && f.want != f.got {
			out = append(out, fmt.Sprintf("%s is %q and not %q", f.name, f.got, f.want))
		}
	}
	for name, want := range e.Headers {
		if got, ok := r.Headers[name]; !ok || got != want {
			out = append(out, fmt.Sprintf("header %s is %q and not %q", name, got, want))
		}
	}
	if difference := comparePayload(e.Payload, r.Payload); difference != "" {
		out = append(out, difference)
	}
	return out
}

func comparePayload(want any, got []byte) string {
	switch w := want.(type) {
	case nil:
		return ""
	case []byte:
		if !bytes.Equal(w, got) {
			return fmt.Sprintf("payload is %q and not %q", got, w)
		}
		return ""
	}
	text, err := json.Marshal(want)
	if err != nil {
		return fmt.Sprintf("the payload that is expected, a %T, has no JSON: %v", want, err)
	}
	var w, g any
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Sprintf("the payload that is expected is no JSON: %v", err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return fmt.Sprintf("payload %q is no JSON: %v", got, err)
	}
	if !contains(g, w) {
		return fmt.Sprintf("payload is %s and has not %s", got, text)
	}
	return ""
}

// contains says whether got is want, or an object with all that want has.
func contains(got, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(got, want)
	}
	g, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range w {
		if have, ok := g[name]; !ok || !contains(have, value) {
			return false
		}
	}
	return true
}
