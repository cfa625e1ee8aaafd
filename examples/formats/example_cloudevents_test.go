package formats_test

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/examples/formats"
	"github.com/gormoutbox/outbox/gormoutbox"
)

func Example_cloudEvents() {
	shop := openShop(gormoutbox.Config{Marshal: formats.CloudEvents("/shop")}) // for all models
	defer shop.close()

	order := formats.Order{ID: orderID, Status: "placed", Cents: 995, Card: "4111 1111 1111 1111"}
	check(shop.Create(&order).Error)
	check(shop.Model(&order).Update("note", "rang twice").Error) // no event
	check(shop.Model(&order).Update("status", "paid").Error)

	for range 2 {
		msg := shop.next()
		event, err := formats.ReadCloudEvent(msg)
		check(err)
		fmt.Println(event.Type(), event.Source(), event.Subject())
		fmt.Println(" ", event.DataContentType(), string(event.Data()))
		fmt.Println("  the id is the message's:", event.ID() == msg.UUID)
	}
	// Output:
	// order.created /shop 7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e
	//   application/json {"id":"7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e","status":"placed","cents":995}
	//   the id is the message's: true
	// order.updated /shop 7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e
	//   application/json {"id":"7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e","status":"paid","cents":995}
	//   the id is the message's: true
}

// A domain event in the same format, which is published later.
func Example_cloudEventsDelayed() {
	shop := openShop(gormoutbox.Config{Marshal: formats.CloudEvents("/shop")})
	defer shop.close()

	due := time.Now().Add(300 * time.Millisecond)
	reminder, err := formats.CloudEvent("/shop", gormoutbox.Event{
		AggregateType: "order", AggregateID: orderID.String(), Type: "order.payment_due", Topic: "orders",
		Payload: map[string]any{"cents": 995}, AvailableAt: due,
	})
	check(err)
	check(gormoutbox.Append(shop.DB, reminder))

	event, err := formats.ReadCloudEvent(shop.next())
	check(err)
	fmt.Println(event.Type(), event.Subject(), string(event.Data()))
	fmt.Println("too early:", time.Now().Before(due))
	// Output:
	// order.payment_due 7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e {"cents":995}
	// too early: false
}

// The default payload with the headers of CloudEvents.
func Example_cloudEventsEmitter() {
	shop := openShop(gormoutbox.Config{})
	defer shop.close()

	refund := formats.Refund{ID: uuid.MustParse("0b6f3c1d-52f7-4a43-8a0e-6f1f6a2b9c11"), OrderID: orderID, Cents: 995, IBAN: "DE02 1203 0000 0000 2020 51"}
	check(shop.Create(&refund).Error)

	event, err := formats.ReadCloudEvent(shop.next())
	check(err)
	fmt.Println(event.Type(), event.Subject())
	fmt.Println(string(event.Data()))
	// Output:
	// refund.created 0b6f3c1d-52f7-4a43-8a0e-6f1f6a2b9c11
	// {"ID":"0b6f3c1d-52f7-4a43-8a0e-6f1f6a2b9c11","OrderID":"7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e","Cents":995}
}
