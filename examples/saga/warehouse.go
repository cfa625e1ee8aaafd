package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
)

// Item is a kind of goods.
type Item struct {
	Name string `gorm:"primaryKey"`
	Free int
}

// Reservation is what is set aside for an order: reserved, then shipped or released.
type Reservation struct {
	ID       int64
	OrderID  int64
	Item     string
	Quantity int
	Status   string
}

// warehouse is the service that has the goods and takes the money.
type warehouse struct {
	*service
	bank *bank
}

func newWarehouse(ctx context.Context, dir string, b *broker) (*warehouse, error) {
	s, err := newService(ctx, dir, "warehouse", b, &Item{}, &Reservation{}, &Account{})
	if err != nil {
		return nil, err
	}
	w := &warehouse{service: s, bank: &bank{}}
	s.router.AddHandler("reserve-stock", topicPlaced, s.client, topicStock, s.outbox, reserve)
	s.router.AddHandler("charge-payment", topicStock, s.client, topicPayments, s.outbox, w.bank.charge)
	s.router.AddConsumerHandler("close-reservation", topicClosed, s.client, closeReservation)

	db := s.db.WithContext(ctx)
	if err := db.Create(&Item{Name: "tea", Free: 10}).Error; err != nil {
		s.closeDB()
		return nil, err
	}
	if err := db.Create([]Account{{Customer: "ada", Balance: 100}, {Customer: "bob", Balance: 50}}).Error; err != nil {
		s.closeDB()
		return nil, err
	}
	return w, nil
}

// reserve is the first step. There is always enough here; if not, it would return another message, as charge does.
func reserve(msg *message.Message) ([]*message.Message, error) {
	_, order, err := read[OrderPlaced](msg)
	if err != nil {
		return nil, err
	}
	tx := dedup.Tx(msg.Context())
	if err := tx.Create(&Reservation{OrderID: order.ID, Item: order.Item, Quantity: order.Quantity, Status: "reserved"}).Error; err != nil {
		return nil, err
	}
	if err := addFree(tx, order.Item, -order.Quantity); err != nil {
		return nil, err
	}
	return reply("stock.reserved", order.ID, StockReserved{OrderID: order.ID, Customer: order.Customer, Amount: order.Amount})
}

// closeReservation is the last step. For a cancelled order it is the compensation of the first one.
func closeReservation(msg *message.Message) error {
	name, order, err := read[OrderClosed](msg)
	if err != nil {
		return err
	}
	tx := dedup.Tx(msg.Context())
	var r Reservation
	if err := tx.Take(&r, "order_id = ? AND status = ?", order.OrderID, "reserved").Error; err != nil {
		return err
	}
	status := "shipped"
	if name == "order.cancelled" {
		status = "released"
		if err := addFree(tx, r.Item, r.Quantity); err != nil {
			return err
		}
	}
	return tx.Model(&r).Update("status", status).Error
}

// addFree would go wrong if it were called twice for a message.
func addFree(tx *gorm.DB, item string, n int) error {
	return tx.Model(&Item{}).Where("name = ?", item).Update("free", gorm.Expr("free + ?", n)).Error
}
