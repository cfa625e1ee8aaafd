// Saga is one business process over two services: orders, and a warehouse that
// also takes the money. Each has a database, an outbox, a relay and a router of its
// own; all that they share is a broker. An order is placed, its goods are reserved,
// its payment is charged; if that is declined, what was done before is undone.
// Handlers return messages, which dedup writes to the outbox in the transaction of
// the handler. SQLite and an in-process Pub/Sub: no server, no configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/gormoutbox/outbox/gormoutbox"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run places two orders, one of which can't be paid, waits for their ends, and says what they were.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "saga")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	broker := newBroker(2, "order.confirmed", "order.cancelled")
	defer func() { err = errors.Join(err, broker.shutdown()) }()

	orders, err := newOrders(ctx, dir, broker)
	if err != nil {
		return err
	}
	defer orders.closeDB()
	warehouse, err := newWarehouse(ctx, dir, broker)
	if err != nil {
		return err
	}
	defer warehouse.closeDB()
	for _, s := range []*service{orders.service, warehouse.service} {
		if err := s.start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }() // once more does nothing
	}

	// The correlation id comes with the request of the client, and goes on from message to message.
	for _, order := range []*Order{
		{ID: 1, Customer: "ada", Item: "tea", Quantity: 2, Amount: 60},
		{ID: 2, Customer: "bob", Item: "tea", Quantity: 3, Amount: 90}, // he has 50
	} {
		request := gormoutbox.WithCorrelationID(ctx, fmt.Sprintf("checkout-%d", order.ID))
		if err := orders.place(request, order); err != nil {
			return err
		}
	}
	if err := broker.wait(ctx); err != nil {
		return err
	}
	if err := errors.Join(orders.stop(), warehouse.stop()); err != nil {
		return err
	}
	if err := reportMessages(out, broker); err != nil {
		return err
	}
	return reportStates(ctx, out, orders, warehouse)
}
