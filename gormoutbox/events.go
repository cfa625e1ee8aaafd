package gormoutbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Emitter is a model that decides itself which events a change of one of its rows is. It is
// asked once for each changed row of a kind that on= admits, after the write and inside of its transaction, which it must not use.
// Its receiver is a copy of the row as the database has it. No events means none; an error, and
// a panic, fails the save.
//
// What an event leaves empty is filled in: the aggregate, the event type, the topic and
// the version with what the annotation says, and a nil payload with the one that the row would have.
type Emitter interface {
	OutboxEvents(ctx context.Context, c Change) ([]Event, error)
}

var emitterType = reflect.TypeFor[Emitter]()

// emitChanges turns changes into events and adds what the user's values recorded. Events of one statement are one
// INSERT; of a statement with very many rows they are made and written by the thousand, so that
// not all payloads are in memory at once.
func (in *instance) emitChanges(db *gorm.DB, c *capture, changes []change) error {
	rows := make([]row, 0, min(len(changes), maxRows))
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		if err := in.write(db.Statement.Context, db, db.Statement.ConnPool, rows); err != nil {
			return err
		}
		c.written += len(rows)
		clear(rows)
		rows = rows[:0]
		return nil
	}
	size := 0
	for _, ch := range changes {
		if !c.model.emits(ch.kind) {
			continue
		}
		n := len(rows)
		var err error
		if rows, err = in.appendEvents(db, c, ch, rows); err != nil {
			return err
		}
		for _, r := range rows[n:] {
			size += len(r.payload)
		}
		if len(rows) >= maxRows || size >= maxBytes {
			if err := flush(); err != nil {
				return err
			}
			size = 0
		}
	}
	recorded, err := in.recordedRows(db, c, changes)
	if err != nil {
		return err
	}
	rows = append(rows, recorded...)
	if err := flush(); err != nil {
		return err
	}
	if c.written > 0 {
		in.plugin.hub.note(c.tx, c.recorders)
	}
	return nil
}

// appendEvents adds the events of one change.
func (in *instance) appendEvents(db *gorm.DB, c *capture, ch change, rows []row) ([]row, error) {
	ctx, m := db.Statement.Context, c.model
	id, err := m.aggregateID(ctx, ch.row)
	if err != nil {
		return nil, err
	}
	eventID, err := uuid.NewV7()
	if err != nil {
		return nil, noRandom(err)
	}
	changed := ch.changed
	if changed == nil && ch.kind == Updated {
		changed = c.changed
	}
	headers, err := m.headers(db, ch, id, changed)
	if err != nil {
		return nil, err
	}
	event := Event{ID: eventID, AggregateType: m.aggregate, AggregateID: id, Type: m.typeOf(ch.kind), Topic: m.topic, Version: m.version}
	if m.marshal == nil && !m.emitter {
		if event.Payload, err = m.payload(ch.row); err != nil {
			return nil, err
		}
		return in.appendRow(ctx, rows, event, nil, headers)
	}

	told := Change{
		ID: eventID, Kind: ch.kind, AggregateType: m.aggregate, AggregateID: id, PreviousAggregateID: headers[HeaderPreviousAggregateID],
		EventType: event.Type, Table: db.Statement.Table, Model: ch.row.Addr().Interface(), Changed: changed, SoftDelete: ch.soft,
		Headers: map[string]string{}, payload: func() ([]byte, error) { return m.payload(ch.row) },
	}
	if ch.before.IsValid() {
		told.Before = ch.before.Addr().Interface()
	}
	if !m.emitter {
		event.Payload, err = m.marshalChange(ctx, told)
		if errors.Is(err, ErrNoEvent) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		return in.appendRow(ctx, rows, event, told.Headers, headers)
	}
	events, err := told.Model.(Emitter).OutboxEvents(ctx, told)
	if err != nil {
		return nil, fmt.Errorf("gormoutbox: OutboxEvents of %s: %w", m.name, err)
	}
	for i, e := range events {
		more, err := m.complete(ctx, &e, event, told, i)
		if errors.Is(err, ErrNoEvent) {
			continue
		}
		if err == nil {
			rows, err = in.appendRow(ctx, rows, e, more, headers)
		}
		if err != nil {
			return nil, fmt.Errorf("event %d of %d of %s: %w", i+1, len(events), m.name, err)
		}
	}
	return rows, nil
}

// complete fills in what an event of an Emitter leaves empty, and returns its headers.
func (m *model) complete(ctx context.Context, e *Event, of Event, told Change, i int) (headers map[string]string, err error) {
	if e.ID == uuid.Nil {
		e.ID = of.ID
		if i > 0 {
			if e.ID, err = uuid.NewV7(); err != nil {
				return nil, noRandom(err)
			}
		}
	}
	if e.AggregateType == "" && e.AggregateID == "" {
		e.AggregateType, e.AggregateID = of.AggregateType, of.AggregateID
	}
	if e.Type == "" {
		e.Type = of.Type
	}
	if e.Topic == "" {
		e.Topic = of.Topic
	}
	if e.Version == "" {
		e.Version = of.Version
	}
	if e.Payload != nil {
		return e.Headers, nil
	}
	if m.marshal == nil {
		e.Payload, err = told.DefaultPayload()
		return e.Headers, err
	}
	told.ID, told.AggregateType, told.AggregateID, told.EventType = e.ID, e.AggregateType, e.AggregateID, e.Type
	told.Headers = map[string]string{}
	e.Payload, err = m.marshalChange(ctx, told)
	maps.Copy(told.Headers, e.Headers)
	return told.Headers, err
}

func (m *model) marshalChange(ctx context.Context, told Change) ([]byte, error) {
	payload, err := m.marshal(ctx, told)
	if err == nil && payload == nil {
		return nil, &EventError{Field: "Payload", Cause: "the MarshalFunc returned nil", Cure: "return ErrNoEvent for no event, or []byte{} for an empty payload"}
	}
	return payload, err
}

// appendRow checks an event and adds it with the user's headers and ours.
func (in *instance) appendRow(ctx context.Context, rows []row, e Event, own, reserved map[string]string) ([]row, error) {
	r, err := e.toRow()
	if err != nil {
		return nil, err
	}
	if err := in.finish(ctx, &r, own); err != nil {
		return nil, err
	}
	for name, value := range reserved {
		r.headers[name] = value
	}
	return append(rows, r), nil
}

// headers are those that say what kind of change it was.
func (m *model) headers(db *gorm.DB, ch change, id string, changed []string) (map[string]string, error) {
	var h map[string]string
	set := func(name, value string) {
		if h == nil {
			h = make(map[string]string, 1)
		}
		h[name] = value
	}
	if len(changed) > 0 {
		set(HeaderChanged, strings.Join(changed, ","))
	}
	if ch.soft {
		set(HeaderSoftDelete, "true")
	}
	if ch.previousID != "" && ch.previousID != id {
		set(HeaderPreviousAggregateID, ch.previousID)
	}
	if m.before == beforeValues && ch.before.IsValid() {
		text, err := m.previous(db, ch.before, changed)
		if err != nil {
			return nil, err
		}
		set(HeaderPrevious, text)
	}
	return h, nil
}

// previous is the JSON of the old values of the changed columns, which are none of the excluded ones.
func (m *model) previous(db *gorm.DB, before reflect.Value, changed []string) (string, error) {
	old := make(map[string]any, len(changed))
	for _, name := range changed {
		old[name] = m.schema.LookUpField(name).ReflectValueOf(db.Statement.Context, before).Interface()
	}
	text, err := json.Marshal(old)
	if err != nil {
		return "", &EventError{Field: "Headers", Cause: "the old values of " + m.name + " can't be marshalled", Cure: "use before=columns, or mend the field's type", err: err}
	}
	return string(text), nil
}
