package watermilladapter

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// AggregateFunc says whose event a message is, for the order of events; both empty means no aggregate and no order. It must be
// safe for concurrent use.
type AggregateFunc func(topic string, msg *message.Message) (aggregateType, aggregateID string, err error)

// AggregateFromMetadata is the AggregateFunc that is used by default: the metadata aggregate_type and aggregate_id.
func AggregateFromMetadata(_ string, msg *message.Message) (aggregateType, aggregateID string, err error) {
	return msg.Metadata.Get(gormoutbox.HeaderAggregateType), msg.Metadata.Get(gormoutbox.HeaderAggregateID), nil
}

// delayedUntil is where Watermill's components/delay puts until when a message is delayed, in RFC 3339.
const delayedUntil = "_watermill_delayed_until"

// ToEvent makes an event of a message that somebody wants to publish to topic. The relay publishes it as a message with the same
// topic, payload and metadata, but for these:
//
//   - The UUID is that of the event, which is new unless the caller sets Event.ID. The message's own is the metadata origin_id.
//   - name and event_type are the message's name, else its event_type, else the topic.
//   - occurred_at is the database's time of the save.
//   - origin_id and replayed of a message that is forwarded are gone, since they tell of that one.
//
// If the message is delayed by Watermill's components/delay until a time that has not come, the event is, too. A nil
// AggregateFunc means AggregateFromMetadata. The message is not changed and may not be changed before the event is written. Errors are of type *Error.
func ToEvent(topic string, msg *message.Message, aggregate AggregateFunc) (gormoutbox.Event, error) {
	if msg == nil {
		return gormoutbox.Event{}, &Error{Field: "message", Cause: "it is nil", Cure: "pass a message"}
	}
	if topic == "" {
		return gormoutbox.Event{}, &Error{Field: "topic", Cause: "it is empty", Cure: "say where the message goes"}
	}
	if aggregate == nil {
		aggregate = AggregateFromMetadata
	}
	meta := msg.Metadata
	e := gormoutbox.Event{
		Type:     cmp.Or(meta.Get(gormoutbox.HeaderName), meta.Get(gormoutbox.HeaderEventType), topic),
		Topic:    topic,
		Version:  meta.Get(gormoutbox.HeaderEventVersion),
		Payload:  payload(msg),
		OriginID: msg.UUID,
		Carried:  meta,
		Headers:  make(map[string]string, len(meta)),
	}
	var err error
	if e.AggregateType, e.AggregateID, err = aggregate(topic, msg); err != nil {
		return gormoutbox.Event{}, &Error{Field: "aggregate", Cause: fmt.Sprintf("it could not be told of message %s", msg.UUID), Cure: "see the AggregateFunc", err: err}
	}
	for name, value := range meta {
		// Watermill's CorrelationID gives an empty one to what comes of a message without one.
		if !gormoutbox.IsReservedHeader(name) && (name != gormoutbox.HeaderCorrelationID || value != "") {
			e.Headers[name] = value
		}
	}
	if until := meta.Get(delayedUntil); until != "" {
		at, err := time.Parse(time.RFC3339, until)
		if err != nil {
			return gormoutbox.Event{}, &Error{Field: delayedUntil, Cause: "the metadata is not a time as in RFC 3339", Cure: "set it by Watermill's components/delay", err: err}
		}
		if at.After(time.Now()) { // a forwarded message may have been delayed before
			e.AvailableAt = at
		}
	}
	return e, nil
}

// payload is never nil: a message may be empty.
func payload(msg *message.Message) []byte {
	if msg.Payload == nil {
		return []byte{}
	}
	return msg.Payload
}
