package formats

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// CloudEvents returns a MarshalFunc for orders: CloudEvents 1.0 in the binary mode of the Kafka protocol binding, where
// the attributes are headers and the payload is the data alone. The source is a URI reference that names the service.
func CloudEvents(source string) gormoutbox.MarshalFunc {
	return func(_ context.Context, c gormoutbox.Change) ([]byte, error) {
		order, ok := c.Model.(*Order)
		if !ok {
			return nil, fmt.Errorf("no event data for a %T", c.Model)
		}
		if !relevant(c) {
			return nil, gormoutbox.ErrNoEvent
		}
		maps.Copy(c.Headers, attributes(source, c.ID, c.EventType, c.AggregateID))
		return json.Marshal(OrderData{ID: order.ID, Status: order.Status, Cents: order.Cents})
	}
}

// CloudEvent makes a domain event for gormoutbox.Append or a Recorder one in the same format. Its payload must be JSON. It
// gets its id here, because ce_id repeats it.
func CloudEvent(source string, e gormoutbox.Event) (gormoutbox.Event, error) {
	if e.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return gormoutbox.Event{}, err
		}
		e.ID = id
	}
	e.Headers = with(e.Headers, attributes(source, e.ID, e.Type, e.AggregateID))
	return e, nil
}

// attributes are the headers of an event. The database's time of the save is not known yet; it is in the header occurred_at.
func attributes(source string, id uuid.UUID, eventType, subject string) map[string]string {
	headers := map[string]string{
		"ce_specversion": "1.0",
		"ce_id":          id.String(),
		"ce_source":      source,
		"ce_type":        eventType,
		contentType:      "application/json",
	}
	if subject != "" { // an event without an aggregate: an attribute may be missing, but not empty
		headers["ce_subject"] = subject
	}
	return headers
}

// with returns the headers of both; the last ones win.
func with(headers, more map[string]string) map[string]string {
	all := make(map[string]string, len(headers)+len(more))
	maps.Copy(all, headers)
	maps.Copy(all, more)
	return all
}

// Refund shows the shortest way to CloudEvents: without a payload of their own, the events of an
// Emitter have the default one, the row as JSON without what is tagged outbox:"-".
type Refund struct {
	_       gormoutbox.Emit `outbox:"aggregate=refund,on=created"`
	ID      uuid.UUID
	OrderID uuid.UUID
	Cents   int64
	IBAN    string `outbox:"-"`
}

var _ gormoutbox.Emitter = Refund{}

// OutboxEvents implements gormoutbox.Emitter.
func (Refund) OutboxEvents(_ context.Context, c gormoutbox.Change) ([]gormoutbox.Event, error) {
	return []gormoutbox.Event{{Headers: attributes("/shop", c.ID, c.EventType, c.AggregateID)}}, nil
}
