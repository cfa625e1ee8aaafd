package main

import (
	"strconv"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// topicOrders has all events of orders, so that they stay in order.
const topicOrders = "orders"

// OrderCreated is the event of a saved Order, whose row is its payload. Nobody
// publishes it: the plugin writes it.
type OrderCreated struct {
	ID   int64
	Item string
}

// ShipOrder is a command.
type ShipOrder struct {
	OrderID int64
	Item    string
}

// OrderPacked and OrderShipped are events that the event bus publishes.
type (
	OrderPacked  struct{ OrderID int64 }
	OrderShipped struct{ OrderID int64 }
)

func (c *ShipOrder) order() int64    { return c.OrderID }
func (e *OrderPacked) order() int64  { return e.OrderID }
func (e *OrderShipped) order() int64 { return e.OrderID }

// marshaler is Watermill's for JSON that also says which order a message is about.
type marshaler struct{ cqrs.JSONMarshaler }

// newMarshaler names the messages. The name of OrderCreated must be the event type
// that the plugin gives it; that of the others is a matter of taste.
func newMarshaler() (marshaler, error) {
	names, err := watermilladapter.NameGenerator(nil,
		watermilladapter.EventType[OrderCreated]("order.created"),
		watermilladapter.EventType[ShipOrder]("ship_order"),
		watermilladapter.EventType[OrderPacked]("order.packed"),
		watermilladapter.EventType[OrderShipped]("order.shipped"),
	)
	return marshaler{cqrs.JSONMarshaler{GenerateName: names}}, err
}

// Marshal is what the buses call. The outbox publishes the messages of an
// aggregate in the order in which they were written.
func (m marshaler) Marshal(v any) (*message.Message, error) {
	msg, err := m.JSONMarshaler.Marshal(v)
	if err != nil {
		return nil, err
	}
	if about, ok := v.(interface{ order() int64 }); ok {
		msg.Metadata.Set(gormoutbox.HeaderAggregateType, "order")
		msg.Metadata.Set(gormoutbox.HeaderAggregateID, strconv.FormatInt(about.order(), 10))
	}
	return msg, nil
}
