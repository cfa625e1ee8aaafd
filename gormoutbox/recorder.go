package gormoutbox

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Recorder is embedded in an annotated model whose methods record domain events:
//
//	type Order struct {
//		_ gormoutbox.Emit `outbox:"aggregate=order,on=none"`
//		gormoutbox.Recorder
//		ID     uuid.UUID
//		Status string
//	}
//
//	func (o *Order) Ship() {
//		o.Status = "shipped"
//		o.Record(gormoutbox.Event{Type: "order.shipped", Payload: Shipped{o.ID}})
//	}
//
// What is recorded is written with the next save of the value (Create, Save, Updates, Delete of a pointer to
// it), behind the events of the save itself, and forgotten once that is committed. A save that fails, is rolled back or
// writes no row keeps it. Events keep their ids through all retries.
//
// GORM's own transactions and those of Transaction are seen to commit. Of another transaction of
// the user the commit is not seen: then the next save of the value looks the events up in
// the outbox, forgets those that are there and writes the others again.
//
// Like the model around it, a Recorder is not for concurrent use. GORM and JSON do not see it.
type Recorder struct {
	events []recordedEvent
}

type recordedEvent struct {
	Event
	// tx is the transaction in which it was written, as long as its end is not known.
	tx gorm.ConnPool
}

// Record adds events. Without an aggregate they belong to the one that is saved. Mistakes in them
// are reported by the save.
func (r *Recorder) Record(events ...Event) {
	for _, e := range events {
		if e.ID == uuid.Nil {
			// Without random numbers the id stays zero, and the save fails on making it.
			e.ID, _ = uuid.NewV7()
		}
		r.events = append(slices.Clip(r.events), recordedEvent{Event: e}) // a copy of the value has this list, too
	}
}

// RecordedEvents returns the events that are not known to be committed.
func (r *Recorder) RecordedEvents() []Event {
	out := make([]Event, len(r.events))
	for i, e := range r.events {
		out[i] = e.Event
	}
	return out
}

func (r *Recorder) recorder() *Recorder { return r }

type hasRecorder interface{ recorder() *Recorder }

var recorderType = reflect.TypeFor[hasRecorder]()

// settle forgets the events written in tx after its commit, or has them written again after its rollback.
func (r *Recorder) settle(tx gorm.ConnPool, committed bool) {
	r.events = slices.Clone(r.events)
	if committed {
		r.events = slices.DeleteFunc(r.events, func(e recordedEvent) bool { return e.tx == tx })
		return
	}
	for i := range r.events {
		if r.events[i].tx == tx {
			r.events[i].tx = nil
		}
	}
}

// recordersOf are the values of the statement that have recorded events.
func recordersOf(c *capture) (out []*Recorder) {
	if !c.model.records {
		return nil
	}
	elems, _ := c.model.elements(c.stmt.ReflectValue)
	for _, e := range elems {
		if !e.CanAddr() {
			continue // a copy: nobody could record on it, nor could it forget
		}
		if r := e.Addr().Interface().(hasRecorder).recorder(); len(r.events) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// recordedRows are the recorded events of those values whose rows the statement met.
func (in *instance) recordedRows(db *gorm.DB, c *capture, changes []change) (rows []row, err error) {
	if len(c.recorders) == 0 {
		return nil, nil
	}
	ctx, m, tx := db.Statement.Context, c.model, c.tx
	met := map[string]bool{}
	for _, ch := range changes {
		met[ch.identity] = true
	}
	for _, rv := range c.held {
		met[rv.identity] = true
	}
	elems, _ := m.elements(db.Statement.ReflectValue)
	done := map[*Recorder]bool{} // a list may have the same pointer twice
	for _, e := range elems {
		if !e.CanAddr() {
			continue
		}
		r := e.Addr().Interface().(hasRecorder).recorder()
		if len(r.events) == 0 || done[r] {
			continue
		}
		done[r] = true
		k, err := m.primaryKey(ctx, e)
		if err != nil {
			return nil, err
		}
		if !met[k.identity] && (len(elems) > 1 || len(changes) == 0) {
			continue
		}
		id, err := m.aggregateID(ctx, e)
		if err != nil {
			return nil, err
		}
		if err := in.recall(ctx, r, tx); err != nil {
			return nil, err
		}
		r.events = slices.Clone(r.events)
		for i := range r.events {
			rec := &r.events[i]
			if rec.tx != nil {
				continue
			}
			event := rec.Event
			if event.AggregateType == "" && event.AggregateID == "" {
				event.AggregateType, event.AggregateID = m.aggregate, id
			}
			if rows, err = in.appendRow(ctx, rows, event, event.Headers, nil); err != nil {
				return nil, fmt.Errorf("recorded event %d of %d: %w", i+1, len(r.events), err)
			}
			rec.tx = tx
		}
	}
	return rows, nil
}

// recall finds out what became of events that were written in transactions whose end was not seen.
func (in *instance) recall(ctx context.Context, r *Recorder, tx gorm.ConnPool) error {
	var ids []any
	for _, e := range r.events {
		if e.tx != nil {
			ids = append(ids, e.ID.String())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	there, err := in.writtenIDs(ctx, tx, ids)
	if err != nil {
		return err
	}
	r.events = slices.DeleteFunc(slices.Clone(r.events), func(e recordedEvent) bool {
		return e.tx != nil && e.tx != tx && there[e.ID.String()]
	})
	for i := range r.events {
		if e := &r.events[i]; e.tx != nil && !there[e.ID.String()] {
			e.tx = nil
		}
	}
	return nil
}

// writtenIDs says which of the events are in the outbox as the transaction sees it.
func (in *instance) writtenIDs(ctx context.Context, tx gorm.ConnPool, ids []any) (there map[string]bool, err error) {
	query := in.dialect.Rebind("SELECT id FROM " + in.dialect.Quote(in.tables.Events) + " WHERE id IN (?" + strings.Repeat(",?", len(ids)-1) + ")")
	rows, err := tx.QueryContext(ctx, query, ids...)
	if err != nil {
		return nil, fmt.Errorf("gormoutbox: looking recorded events up: %w", err)
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	there = map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("gormoutbox: looking recorded events up: %w", err)
		}
		there[strings.ToLower(id)] = true
	}
	return there, rows.Err()
}

// finishRecorders follows the end of a transaction that GORM or we own, or a statement whose events could not be written.
func (c *capture) finishRecorders(committed bool) {
	for _, r := range c.recorders {
		r.settle(c.tx, committed)
	}
}
