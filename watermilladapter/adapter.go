package watermilladapter

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Error is a row or message that can't be turned into the other.
type Error struct {
	// Field names the field of the row, or the header.
	Field string
	Cause string
	Cure  string

	err error
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("watermilladapter: %s: %s; %s", e.Field, e.Cause, e.Cure)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

// Unwrap returns the error behind.
func (e *Error) Unwrap() error { return e.err }

// Topic is the topic of a row: its own, else the event type.
func Topic(r gormoutbox.Record) string {
	if r.Topic != "" {
		return r.Topic
	}
	return r.EventType
}

// ToMessage makes a new message of a row. Publishers may change a message, so
// each attempt needs a new one; the payload is shared with the row. It returns
// an *Error if the row lacks what every message must have.
func ToMessage(r gormoutbox.Record) (*message.Message, error) {
	const cure = "the row was not written by gormoutbox; mend or delete it"
	switch {
	case r.ID == uuid.Nil:
		return nil, &Error{Field: "id", Cause: "it is zero", Cure: cure}
	case r.EventType == "":
		return nil, &Error{Field: "event_type", Cause: "it is empty", Cure: cure}
	case (r.AggregateType == "") != (r.AggregateID == ""):
		return nil, &Error{Field: "aggregate_id", Cause: "only one of aggregate_type and aggregate_id is set", Cure: cure}
	}
	msg := message.NewMessage(r.ID.String(), r.Payload)
	for name, value := range r.Headers {
		msg.Metadata.Set(name, value)
	}
	if r.AggregateType != "" {
		msg.Metadata.Set(gormoutbox.HeaderAggregateType, r.AggregateType)
		msg.Metadata.Set(gormoutbox.HeaderAggregateID, r.AggregateID)
	}
	msg.Metadata.Set(gormoutbox.HeaderEventType, r.EventType)
	msg.Metadata.Set(gormoutbox.HeaderName, r.EventType)
	msg.Metadata.Set(gormoutbox.HeaderOccurredAt, r.CreatedAt.UTC().Format(time.RFC3339Nano))
	return msg, nil
}

// FromMessage reads a message that ToMessage made, on the consumer's side or to
// store it again. Seq, Part, Topic and Attempts do not travel and stay zero. It
// returns an *Error that names the header that is missing or wrong.
func FromMessage(msg *message.Message) (gormoutbox.Record, error) {
	if msg == nil {
		return gormoutbox.Record{}, &Error{Field: "message", Cause: "it is nil", Cure: "pass a message"}
	}
	const cure = "the message does not come from an outbox of gormoutbox"
	id, err := uuid.Parse(msg.UUID)
	if err != nil || id == uuid.Nil {
		return gormoutbox.Record{}, &Error{Field: "UUID", Cause: fmt.Sprintf("%q is not the id of an event", msg.UUID), Cure: cure, err: err}
	}
	r := gormoutbox.Record{
		ID:            id,
		AggregateType: msg.Metadata.Get(gormoutbox.HeaderAggregateType),
		AggregateID:   msg.Metadata.Get(gormoutbox.HeaderAggregateID),
		EventType:     msg.Metadata.Get(gormoutbox.HeaderEventType),
		Payload:       msg.Payload,
		Headers:       make(map[string]string, len(msg.Metadata)),
	}
	if r.EventType == "" {
		return gormoutbox.Record{}, &Error{Field: gormoutbox.HeaderEventType, Cause: "the header is missing", Cure: cure}
	}
	if (r.AggregateType == "") != (r.AggregateID == "") {
		return gormoutbox.Record{}, &Error{Field: gormoutbox.HeaderAggregateID, Cause: "only one of aggregate_type and aggregate_id is there", Cure: cure}
	}
	if r.CreatedAt, err = time.Parse(time.RFC3339Nano, msg.Metadata.Get(gormoutbox.HeaderOccurredAt)); err != nil {
		return gormoutbox.Record{}, &Error{Field: gormoutbox.HeaderOccurredAt, Cause: "the header is not a time as in RFC 3339", Cure: cure, err: err}
	}
	r.CreatedAt = r.CreatedAt.UTC()
	for name, value := range msg.Metadata {
		switch name {
		case gormoutbox.HeaderAggregateType, gormoutbox.HeaderAggregateID, gormoutbox.HeaderEventType,
			gormoutbox.HeaderName, gormoutbox.HeaderOccurredAt:
			continue
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return gormoutbox.Record{}, &Error{Field: name, Cause: "the header is not valid UTF-8", Cure: "encode binary values, for example in base64"}
		}
		r.Headers[name] = value
	}
	return r, nil
}
