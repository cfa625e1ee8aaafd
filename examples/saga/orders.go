package main

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

// Order begins a saga: the plugin writes order.placed with the row.
type Order struct {
	_        gormoutbox.Emit `outbox:"aggregate=order,on=created,type=order.placed,topic=orders.placed"`
	ID       int64
	Customer string
	Item     string
	Quantity int
	Amount   int
	Status   string
}

// orders is the service that customers talk to.
type orders struct{ *service }

func newOrders(ctx context.Context, dir string, b *broker) (*orders, error) {
	s, err := newService(ctx, dir, "orders", b, &Order{})
	if err != nil {
		return nil, err
	}
	s.router.AddHandler("close-order", topicPayments, s.client, topicClosed, s.outbox, closeOrder)
	return &orders{s}, nil
}

// place is a request of a client, which gave the order its id: it may be sent again if there was no answer.
func (o *orders) place(ctx context.Context, order *Order) error {
	order.Status = "placed"
	return o.db.WithContext(ctx).Create(order).Error
}

// closeOrder is the end of the saga for the order: it is confirmed, or cancelled, which makes the warehouse undo its part.
func closeOrder(msg *message.Message) ([]*message.Message, error) {
	name, payment, err := read[PaymentEnded](msg)
	if err != nil {
		return nil, err
	}
	status := "confirmed"
	if name == "payment.declined" {
		status = "cancelled"
	}
	closed := dedup.Tx(msg.Context()).Model(&Order{}).Where("id = ? AND status = ?", payment.OrderID, "placed").Update("status", status)
	if closed.Error != nil {
		return nil, closed.Error
	}
	if closed.RowsAffected != 1 {
		return nil, fmt.Errorf("order %d is not open", payment.OrderID)
	}
	return reply("order."+status, payment.OrderID, OrderClosed(payment))
}
