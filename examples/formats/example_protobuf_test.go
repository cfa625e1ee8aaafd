package formats_test

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/examples/formats"
	"github.com/gormoutbox/outbox/examples/formats/orderpb"
	"github.com/gormoutbox/outbox/gormoutbox"
)

func Example_protobuf() {
	shop := openShop(gormoutbox.Config{
		Models: []any{gormoutbox.Annotate(&formats.Order{}, "").Marshal(formats.Protobuf)}, // for this model alone
	})
	defer shop.close()

	order := formats.Order{ID: orderID, Status: "placed", Cents: 995, Card: "4111 1111 1111 1111"}
	check(shop.Create(&order).Error)
	check(shop.Model(&order).Update("note", "rang twice").Error) // no event
	check(shop.Transaction(func(tx *gorm.DB) error {
		if err := tx.Model(&order).Update("status", "shipped").Error; err != nil {
			return err
		}
		event, err := formats.ProtobufEvent(gormoutbox.Event{
			AggregateType: "order", AggregateID: order.ID.String(), Type: "order.shipped", Topic: "orders",
		}, &orderpb.Shipped{Carrier: "post"})
		if err != nil {
			return err
		}
		return gormoutbox.Append(tx, event)
	}))

	for range 3 {
		msg := shop.next()
		payload, err := formats.ReadProtobuf(msg)
		check(err)
		fmt.Println(msg.Metadata.Get(gormoutbox.HeaderEventType), len(msg.Payload), "bytes")
		switch payload := payload.(type) {
		case *orderpb.Order:
			fmt.Println(" ", payload.GetId(), payload.GetStatus(), payload.GetCents())
		case *orderpb.Shipped:
			fmt.Println(" ", payload.GetCarrier())
		}
	}
	// Output:
	// order.created 43 bytes
	//   7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e STATUS_PLACED 995
	// order.updated 43 bytes
	//   7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e STATUS_SHIPPED 995
	// order.shipped 6 bytes
	//   post
}
