package formats

import (
	"context"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"google.golang.org/protobuf/proto"

	"github.com/gormoutbox/outbox/examples/formats/orderpb"
	"github.com/gormoutbox/outbox/gormoutbox"
)

const protobufType = "application/protobuf"

// Protobuf is a MarshalFunc for orders. What is private stays out because it is not copied. A status that the
// contract does not have fails the save: better there than in every consumer.
func Protobuf(_ context.Context, c gormoutbox.Change) ([]byte, error) {
	order, ok := c.Model.(*Order)
	if !ok {
		return nil, fmt.Errorf("no Protobuf message for a %T", c.Model)
	}
	if !relevant(c) {
		return nil, gormoutbox.ErrNoEvent
	}
	status, ok := orderpb.Status_value["STATUS_"+strings.ToUpper(order.Status)]
	if !ok {
		return nil, fmt.Errorf("order.proto has no status %q", order.Status)
	}
	c.Headers[contentType] = protobufType
	return proto.Marshal(&orderpb.Order{Id: order.ID.String(), Status: orderpb.Status(status), Cents: order.Cents})
}

// ProtobufEvent gives a domain event for gormoutbox.Append a payload in the same format.
func ProtobufEvent(e gormoutbox.Event, payload proto.Message) (gormoutbox.Event, error) {
	encoded, err := proto.Marshal(payload)
	if err != nil {
		return gormoutbox.Event{}, err
	}
	e.Payload = encoded
	e.Headers = with(e.Headers, map[string]string{contentType: protobufType})
	return e, nil
}

// ReadProtobuf is the consumer's side. The event type says which message the payload is.
func ReadProtobuf(msg *message.Message) (proto.Message, error) {
	if got := msg.Metadata.Get(contentType); got != protobufType {
		return nil, fmt.Errorf("content type %q, want %q", got, protobufType)
	}
	var payload proto.Message
	switch eventType := msg.Metadata.Get(gormoutbox.HeaderEventType); eventType {
	case "order.created", "order.updated", "order.upserted", "order.deleted":
		payload = new(orderpb.Order)
	case "order.shipped":
		payload = new(orderpb.Shipped)
	default:
		return nil, fmt.Errorf("unknown event type %q", eventType)
	}
	if err := proto.Unmarshal(msg.Payload, payload); err != nil {
		return nil, err
	}
	return payload, nil
}
