package main

import (
	"errors"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
)

// Account is what a customer has.
type Account struct {
	Customer string `gorm:"primaryKey"`
	Balance  int
}

// bank fails once, for the first order, when the money is taken already. The
// accounts are in the warehouse's database, so that this is rolled back; a bank
// elsewhere would be told the id of the message, and take the money once for it.
type bank struct{ failures atomic.Int64 }

var errBank = errors.New("the bank does not answer")

// charge is the second step. That there is not enough money is an answer, not an
// error: an error would bring the message again.
func (b *bank) charge(msg *message.Message) ([]*message.Message, error) {
	_, order, err := read[StockReserved](msg)
	if err != nil {
		return nil, err
	}
	taken := dedup.Tx(msg.Context()).Model(&Account{}).Where("customer = ? AND balance >= ?", order.Customer, order.Amount).
		Update("balance", gorm.Expr("balance - ?", order.Amount))
	if taken.Error != nil {
		return nil, taken.Error
	}
	if taken.RowsAffected == 0 {
		return reply("payment.declined", order.OrderID, PaymentEnded{OrderID: order.OrderID})
	}
	if order.OrderID == 1 && b.failures.CompareAndSwap(0, 1) {
		return nil, errBank
	}
	return reply("payment.charged", order.OrderID, PaymentEnded{OrderID: order.OrderID})
}
