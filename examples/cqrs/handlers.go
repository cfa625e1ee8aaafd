package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gormoutbox/outbox/dedup"
)

// handlers is what the shop does. What a handler writes by dedup.Tx and what it
// sends by a bus is one transaction, with the record that its message was handled.
type handlers struct {
	buses buses
	post  *carrier
}

// shipNew is an event handler: it answers the event of a GORM save by a command.
func (h handlers) shipNew(ctx context.Context, e *OrderCreated) error {
	return h.buses.commands.Send(ctx, &ShipOrder{OrderID: e.ID, Item: e.Item})
}

// ship is the command handler. It publishes two events.
func (h handlers) ship(ctx context.Context, c *ShipOrder) error {
	tx := dedup.Tx(ctx)
	if err := tx.Create(&Parcel{OrderID: c.OrderID}).Error; err != nil {
		return err
	}
	if err := h.buses.events.Publish(ctx, &OrderPacked{OrderID: c.OrderID}); err != nil {
		return err
	}
	if err := tx.Model(&Order{ID: c.OrderID}).Update("status", "shipped").Error; err != nil {
		return err
	}
	if err := h.buses.events.Publish(ctx, &OrderShipped{OrderID: c.OrderID}); err != nil {
		return err
	}
	return h.post.collect(c.OrderID)
}

// The group of these three handlers keeps the read model. They share a
// subscription, so they get the events of an order one after the other.
func (h handlers) noteCreated(ctx context.Context, e *OrderCreated) error {
	return note(ctx, e.ID, "created")
}

func (h handlers) notePacked(ctx context.Context, e *OrderPacked) error {
	return note(ctx, e.OrderID, "packed")
}

func (h handlers) noteShipped(ctx context.Context, e *OrderShipped) error {
	return note(ctx, e.OrderID, "shipped")
}

func note(ctx context.Context, orderID int64, what string) error {
	return dedup.Tx(ctx).Create(&TimelineEntry{OrderID: orderID, What: what}).Error
}

// carrier does not come to collect the first order at the first time.
type carrier struct{ failures atomic.Int64 }

var errNoCarrier = errors.New("the carrier did not come")

func (c *carrier) collect(orderID int64) error {
	if orderID == 1 && c.failures.CompareAndSwap(0, 1) {
		return errNoCarrier
	}
	return nil
}
