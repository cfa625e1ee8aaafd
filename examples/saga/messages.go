package main

import (
	"encoding/json"
	"strconv"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// The topics, each with the messages that it has.
const (
	topicPlaced   = "orders.placed" // order.placed, by the plugin
	topicStock    = "stock"         // stock.reserved
	topicPayments = "payments"      // payment.charged, payment.declined
	topicClosed   = "orders.closed" // order.confirmed, order.cancelled
)

// OrderPlaced is the row of a new order.
type OrderPlaced struct {
	ID       int64
	Customer string
	Item     string
	Quantity int
	Amount   int
}

// StockReserved says that the goods are set aside.
type StockReserved struct {
	OrderID  int64
	Customer string
	Amount   int
}

// PaymentEnded is payment.charged or payment.declined.
type PaymentEnded struct{ OrderID int64 }

// OrderClosed is order.confirmed or order.cancelled.
type OrderClosed struct{ OrderID int64 }

// reply makes what a handler returns. All messages about an order are of one
// aggregate, so that they are published in the order in which they were written.
func reply(name string, orderID int64, payload any) ([]*message.Message, error) {
	text, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	// The outbox gives the message an id of its own, which is the same if the handler ever runs again.
	msg := message.NewMessage(watermill.NewUUID(), text)
	msg.Metadata.Set(gormoutbox.HeaderName, name)
	msg.Metadata.Set(gormoutbox.HeaderAggregateType, "order")
	msg.Metadata.Set(gormoutbox.HeaderAggregateID, strconv.FormatInt(orderID, 10))
	return []*message.Message{msg}, nil
}

// read returns the name and the payload of a message.
func read[T any](msg *message.Message) (name string, payload T, err error) {
	err = json.Unmarshal(msg.Payload, &payload)
	return msg.Metadata.Get(gormoutbox.HeaderName), payload, err
}
