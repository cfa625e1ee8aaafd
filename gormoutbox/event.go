package gormoutbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxName is how many bytes an aggregate type or id, an event type or a topic may have.
const MaxName = 255

// Event is a domain event for Append.
type Event struct {
	// ID is the id under which the event is published, for ever. Zero means a new UUIDv7.
	ID uuid.UUID
	// AggregateType and AggregateID say whose event it is: events of one
	// aggregate are published in order. Both empty means no aggregate and no order.
	AggregateType string
	AggregateID   string
	// Type is the event type, such as "order.shipped". Required.
	Type string
	// Topic overrides Config.Topic, which overrides the event type.
	Topic string
	// Version is the event_version header; empty means none.
	Version string
	// Payload is published as it is if it is a []byte, json.RawMessage or string, else as
	// its encoding/json without fields tagged outbox:"-". Required.
	Payload any
	// Headers are added to those of the context and win over them.
	Headers map[string]string
	// AvailableAt delays the event until the database's clock has reached it;
	// the events behind it are not held back. Zero means at once.
	AvailableAt time.Time
	// OriginID is the id under which a message that is forwarded as this event came in. It becomes the
	// header origin_id; empty means none.
	OriginID string
	// Carried are the headers of a message that is forwarded as this event. Of these the reserved ones that describe its
	// payload (changed, previous, previous_aggregate_id and soft_delete) are kept, and nothing else: what else is to stay belongs into Headers.
	Carried map[string]string
	// Once means that nothing is written if the outbox has an event of this ID already; a warning is logged then. It is for ids that are
	// not random, and costs one round trip for all events of an Append. ID is required with it.
	Once bool
}

// row is an event as it is written.
type row struct {
	id            uuid.UUID
	aggregateType string
	aggregateID   string
	eventType     string
	topic         string
	payload       []byte
	headers       map[string]string
	availableAt   time.Time
	once          bool
}

// toRow checks the event and marshals its payload.
func (e Event) toRow() (row, error) {
	if err := checkName("Type", e.Type); err != nil {
		return row{}, err
	}
	if e.Topic != "" {
		if err := checkName("Topic", e.Topic); err != nil {
			return row{}, err
		}
	}
	switch {
	case e.AggregateType == "" && e.AggregateID == "":
	case e.AggregateType == "":
		return row{}, &EventError{Field: "AggregateType", Cause: "it is empty and AggregateID is not", Cure: "set both, or none for an event without an order"}
	case e.AggregateID == "":
		return row{}, &EventError{Field: "AggregateID", Cause: "it is empty and AggregateType is not", Cure: "set both, or none for an event without an order"}
	default:
		if err := checkName("AggregateType", e.AggregateType); err != nil {
			return row{}, err
		}
		if err := checkKey(e.AggregateID); err != nil {
			return row{}, err
		}
	}
	payload, err := marshalPayload(e.Payload)
	if err != nil {
		return row{}, err
	}
	id := e.ID
	if id == uuid.Nil && e.Once {
		return row{}, &EventError{Field: "ID", Cause: "it is zero and Once is set", Cure: "derive it from what the event is about, or leave Once out"}
	}
	if id == uuid.Nil {
		if id, err = uuid.NewV7(); err != nil {
			return row{}, noRandom(err)
		}
	}
	if t := e.AvailableAt; !t.IsZero() && (t.UTC().Year() < 1970 || t.UTC().Year() > 9999) {
		return row{}, &EventError{Field: "AvailableAt", Cause: "it is not in the years 1970 to 9999", Cure: "leave it zero for at once"}
	}
	r := row{
		id: id, aggregateType: e.AggregateType, aggregateID: e.AggregateID, eventType: e.Type,
		topic: e.Topic, payload: payload, availableAt: e.AvailableAt, headers: map[string]string{}, once: e.Once,
	}
	if err := addCarried(r.headers, e.Carried); err != nil {
		return row{}, err
	}
	if e.OriginID != "" {
		if !utf8.ValidString(e.OriginID) || len(e.OriginID) > MaxName {
			return row{}, &EventError{Field: "OriginID", Cause: "it is not valid UTF-8 or has more than 255 bytes", Cure: "leave it out, or encode it"}
		}
		r.headers[HeaderOriginID] = e.OriginID
	}
	if e.Version != "" {
		if !utf8.ValidString(e.Version) {
			return row{}, &EventError{Field: "Version", Cause: "it is not valid UTF-8", Cure: "use a short text such as \"2\""}
		}
		r.headers[HeaderEventVersion] = e.Version
	}
	return r, nil
}

func noRandom(err error) error {
	return &EventError{Field: "ID", Cause: "no random numbers for a new id", Cure: "see the system's random source", err: err}
}

func marshalPayload(payload any) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &EventError{Field: "Payload", Cause: fmt.Sprintf("marshalling %T panicked", payload), Cure: "mend its MarshalJSON"}
		}
	}()
	switch p := payload.(type) {
	case nil:
		return nil, &EventError{Field: "Payload", Cause: "it is nil", Cure: "pass a value, or []byte{} for an empty payload"}
	case []byte:
		if p == nil {
			return nil, &EventError{Field: "Payload", Cause: "it is nil", Cure: "pass []byte{} for an empty payload"}
		}
		return p, nil
	case json.RawMessage:
		if p == nil {
			return nil, &EventError{Field: "Payload", Cause: "it is nil", Cure: `pass json.RawMessage("null") for a null`}
		}
		return p, nil
	case string:
		return []byte(p), nil
	default:
		b, err := marshalValue(payload)
		if config := (*ConfigError)(nil); errors.As(err, &config) {
			return nil, &EventError{Field: "Payload", Cause: config.Cause, Cure: config.Cure, err: err}
		}
		if err != nil {
			return nil, &EventError{Field: "Payload", Cause: fmt.Sprintf("%T can't be marshalled", payload), Cure: "pass []byte or a type that encoding/json knows", err: err}
		}
		return b, nil
	}
}

// checkName checks an aggregate type, an event type or a topic.
func checkName(field, name string) error {
	cause := nameProblem(name)
	if cause == "" {
		return nil
	}
	return &EventError{Field: field, Cause: cause, Cure: nameCure}
}

const nameCure = "use 1 to 255 bytes of printable UTF-8"

func nameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > MaxName:
		return fmt.Sprintf("it has %d bytes and at most %d are allowed", len(name), MaxName)
	case !utf8.ValidString(name):
		return "it is not valid UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "it has control characters"
	}
	return ""
}

// checkKey checks an aggregate id. It may hold anything that every database can store.
func checkKey(key string) error {
	var cause string
	switch {
	case key == "":
		cause = "it is empty"
	case len(key) > MaxName:
		cause = fmt.Sprintf("it has %d bytes and at most %d are allowed", len(key), MaxName)
	case !utf8.ValidString(key):
		cause = "it is not valid UTF-8"
	case strings.IndexByte(key, 0) >= 0:
		cause = "it has a NUL character"
	default:
		return nil
	}
	return &EventError{Field: "AggregateID", Cause: cause, Cure: "use 1 to 255 bytes of UTF-8 without NUL"}
}
