package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

// Item is a kind of goods. Adding to Reserved twice would go unnoticed by the
// database: it is dedup that prevents it.
type Item struct {
	SKU      string `gorm:"primaryKey"`
	Reserved int
}

// Reservation is what is set aside for an order.
type Reservation struct {
	ID       int64
	OrderID  uuid.UUID `gorm:"type:uuid;index"`
	SKU      string
	Quantity int
	Paid     bool
}

// orderEvent is what the stock needs of an order's events.
type orderEvent struct {
	ID       uuid.UUID `json:"id"`
	SKU      string    `json:"sku"`
	Quantity int       `json:"quantity"`
	Status   string    `json:"status"`
}

// unusableError is a message that will never work.
type unusableError struct {
	cause error
}

func (e *unusableError) Error() string { return "unusable message: " + e.cause.Error() }

func (e *unusableError) Unwrap() error { return e.cause }

// handle gets the events of each order in the order in which they happened. Its
// writes go through dedup.Tx.
func handle(msg *message.Message) error {
	var order orderEvent
	if err := json.Unmarshal(msg.Payload, &order); err != nil {
		return &unusableError{err}
	}
	tx := dedup.Tx(msg.Context())
	switch msg.Metadata.Get(gormoutbox.HeaderEventType) {
	case "order.created":
		return reserve(tx, order)
	case "order.updated":
		if order.Status == "paid" {
			return confirm(tx, order)
		}
	}
	return nil // nothing to do for the stock
}

func reserve(tx *gorm.DB, order orderEvent) error {
	reservation := Reservation{OrderID: order.ID, SKU: order.SKU, Quantity: order.Quantity}
	if err := tx.Create(&reservation).Error; err != nil {
		return fmt.Errorf("reserving: %w", err)
	}
	add := clause.OnConflict{
		Columns:   []clause.Column{{Name: "sku"}},
		DoUpdates: clause.Assignments(map[string]any{"reserved": gorm.Expr("items.reserved + excluded.reserved")}),
	}
	if err := tx.Clauses(add).Create(&Item{SKU: order.SKU, Reserved: order.Quantity}).Error; err != nil {
		return fmt.Errorf("counting: %w", err)
	}
	return nil
}

func confirm(tx *gorm.DB, order orderEvent) error {
	result := tx.Model(&Reservation{}).Where("order_id = ?", order.ID).Update("paid", true)
	if result.Error != nil {
		return fmt.Errorf("confirming: %w", result.Error)
	}
	if result.RowsAffected == 0 {
		return &unusableError{errors.New("paid before it was created")}
	}
	return nil
}
