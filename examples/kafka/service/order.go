package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// States of an order.
const (
	statusPlaced = "placed"
	statusPaid   = "paid"
)

// Order is an order. Every save of one is an event, order.created or
// order.updated, whose payload is the row as JSON.
type Order struct {
	_         gormoutbox.Emit `outbox:"aggregate=order"`
	ID        uuid.UUID       `json:"id" gorm:"type:uuid"`
	SKU       string          `json:"sku"`
	Quantity  int             `json:"quantity"`
	Status    string          `json:"status"`
	Card      string          `json:"card" outbox:"-"` // never leaves the database
	CreatedAt time.Time       `json:"created_at"`
}

var (
	errNotFound = errors.New("no such order")
	errConflict = errors.New("another order has this id")
)

// place saves an order. The client makes the id, so a client that got no answer
// may place the same order again: it is saved once, and has one event.
func place(ctx context.Context, db *gorm.DB, order Order) (saved Order, created bool, err error) {
	order.Status = statusPlaced
	err = db.WithContext(ctx).Create(&order).Error
	if !errors.Is(err, gorm.ErrDuplicatedKey) {
		return order, err == nil, err
	}
	saved, err = find(ctx, db, order.ID)
	if err == nil && (saved.SKU != order.SKU || saved.Quantity != order.Quantity) {
		err = errConflict
	}
	return saved, false, err
}

// pay marks an order as paid. Paying it again changes nothing and is no event.
func pay(ctx context.Context, db *gorm.DB, id uuid.UUID) (Order, error) {
	err := db.WithContext(ctx).Model(&Order{ID: id}).
		Where("status = ?", statusPlaced).Update("status", statusPaid).Error
	if err != nil {
		return Order{}, fmt.Errorf("paying: %w", err)
	}
	return find(ctx, db, id)
}

func find(ctx context.Context, db *gorm.DB, id uuid.UUID) (Order, error) {
	var order Order
	err := db.WithContext(ctx).Take(&order, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return order, errNotFound
	}
	return order, err
}
