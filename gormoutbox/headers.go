package gormoutbox

import (
	"context"
	"fmt"
	"maps"
	"unicode/utf8"
)

// Names of the headers (Watermill's metadata) that every event carries or may
// carry. All but the last five are reserved: they are set by this module, and a
// user's header of that name is an error when the event is saved.
const (
	HeaderAggregateType = "aggregate_type"
	HeaderAggregateID   = "aggregate_id"
	HeaderEventType     = "event_type"
	HeaderEventVersion  = "event_version"
	// HeaderOccurredAt is the database's time of the save, RFC 3339 in UTC.
	HeaderOccurredAt = "occurred_at"
	// HeaderChanged lists the columns that an update assigned, or changed if the row before it was read, separated by commas.
	HeaderChanged = "changed"
	// HeaderPrevious is a JSON object with the values before an update, see Emit.
	HeaderPrevious = "previous"
	// HeaderPreviousAggregateID is the aggregate id before an update that changed it.
	HeaderPreviousAggregateID = "previous_aggregate_id"
	// HeaderSoftDelete is "true" if a deleted row is still in its table, marked as deleted.
	HeaderSoftDelete = "soft_delete"
	// HeaderName is the event type once more, where Watermill's CQRS processors look for it.
	HeaderName = "name"
	// HeaderOriginID is the id under which a forwarded message came in.
	HeaderOriginID = "origin_id"
	// HeaderReplayed marks an event that is published again on request.
	HeaderReplayed = "replayed"

	// HeaderCorrelationID is the header that Watermill's CorrelationID middleware carries on.
	HeaderCorrelationID = "correlation_id"
	// HeaderCausationID is the id of the message that caused this one.
	HeaderCausationID = "causation_id"
	// HeaderTraceParent and HeaderTraceState are those of W3C Trace Context.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	// HeaderSequence is the number of an event among those of its aggregate, if the producer gives it one: they go up by one, under a lock of the
	// aggregate. Consumers look at it with dedup.Sequence.
	HeaderSequence = "aggregate_sequence"
)

// watermillUUIDHeader is where watermill-kafka puts the message id; it refuses a message that has it already.
const watermillUUIDHeader = "_watermill_message_uuid"

var reserved = map[string]bool{
	HeaderAggregateType: true, HeaderAggregateID: true, HeaderEventType: true, HeaderEventVersion: true,
	HeaderOccurredAt: true, HeaderChanged: true, HeaderName: true, HeaderOriginID: true, HeaderReplayed: true,
	HeaderPrevious: true, HeaderPreviousAggregateID: true, HeaderSoftDelete: true,
	watermillUUIDHeader: true,
}

// IsReservedHeader says whether a header's name belongs to this module.
func IsReservedHeader(name string) bool { return reserved[name] }

type headersKey struct{}

type ignoreKey struct{}

// WithHeaders returns a context whose saves and appends give their events these
// headers, in addition to those that ctx has already. Options travel in the
// context because that reaches every statement that a save causes.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	all := maps.Clone(contextHeaders(ctx))
	if all == nil {
		all = make(map[string]string, len(headers))
	}
	maps.Copy(all, headers)
	return context.WithValue(ctx, headersKey{}, all)
}

// WithCorrelationID is WithHeaders for the correlation id alone.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return WithHeaders(ctx, map[string]string{HeaderCorrelationID: id})
}

// WithCausationID is WithHeaders for the id of the message that is being handled.
func WithCausationID(ctx context.Context, id string) context.Context {
	return WithHeaders(ctx, map[string]string{HeaderCausationID: id})
}

type defaultHeadersKey struct{}

// WithDefaultHeaders returns a context whose saves and appends give their events these headers, in addition to those that ctx has
// already, unless Config.Headers, WithHeaders or the event itself has the same name. It is for what travels along with
// a message that is being handled, such as its correlation id and its trace.
func WithDefaultHeaders(ctx context.Context, headers map[string]string) context.Context {
	all := maps.Clone(defaultHeaders(ctx))
	if all == nil {
		all = make(map[string]string, len(headers))
	}
	maps.Copy(all, headers)
	return context.WithValue(ctx, defaultHeadersKey{}, all)
}

func defaultHeaders(ctx context.Context) map[string]string {
	h, _ := ctx.Value(defaultHeadersKey{}).(map[string]string)
	return h
}

// addDefaults adds the default headers that dst does not have. The state of a trace belongs to its parent, so one does not come without the other.
func addDefaults(dst, src map[string]string) error {
	missing := make(map[string]string, len(src))
	for name, value := range src {
		if _, ok := dst[name]; !ok {
			missing[name] = value
		}
	}
	if _, own := dst[HeaderTraceParent]; own {
		delete(missing, HeaderTraceState)
	}
	return addHeaders(dst, missing)
}

// carried are the reserved headers that describe a payload, which stay when the message that had them is forwarded.
var carried = map[string]bool{HeaderChanged: true, HeaderPrevious: true, HeaderPreviousAggregateID: true, HeaderSoftDelete: true}

// addCarried copies the headers of a forwarded message that describe its payload.
func addCarried(dst, src map[string]string) error {
	for name, value := range src {
		if !carried[name] {
			continue
		}
		if !utf8.ValidString(value) {
			return &EventError{Field: "Carried", Cause: fmt.Sprintf("header %q is not valid UTF-8", name), Cure: "leave it out"}
		}
		dst[name] = value
	}
	return nil
}

func contextHeaders(ctx context.Context) map[string]string {
	h, _ := ctx.Value(headersKey{}).(map[string]string)
	return h
}

// Ignore returns a context under which writes of annotated models are neither
// captured nor refused. It is meant for back-fills and repairs, and is easy to
// find in a review.
func Ignore(ctx context.Context) context.Context { return context.WithValue(ctx, ignoreKey{}, true) }

func ignored(ctx context.Context) bool { return ctx.Value(ignoreKey{}) != nil }

// addHeaders copies a user's headers into dst after checking them.
func addHeaders(dst, src map[string]string) error {
	for name, value := range src {
		switch {
		case name == "":
			return &EventError{Field: "Headers", Cause: "a header has an empty name", Cure: "give it a name"}
		case IsReservedHeader(name):
			return &EventError{
				Field: "Headers", Cause: fmt.Sprintf("the name %q is reserved", name),
				Cure: "use another name; reserved ones are the Header constants of this package",
			}
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return &EventError{
				Field: "Headers", Cause: fmt.Sprintf("header %q is not valid UTF-8", name),
				Cure: "encode binary values, for example in base64",
			}
		}
		dst[name] = value
	}
	return nil
}
