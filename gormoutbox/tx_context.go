package gormoutbox

import (
	"context"

	"gorm.io/gorm"
)

type txKey struct{}

// WithTx returns a context that carries a transaction to code that gets a context only, such as
// a Watermill publisher: see watermilladapter.Publisher.
//
//	db.Transaction(func(tx *gorm.DB) error {
//		ctx := gormoutbox.WithTx(ctx, tx)
//		…
//		return eventBus.Publish(ctx, &OrderPlaced{ID: order.ID})
//	})
//
// The transaction may be used through it as long as it is open, and by one goroutine at a time.
func WithTx(ctx context.Context, tx *gorm.DB) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

// TxFrom returns the transaction that WithTx has put into ctx, with ctx as the context of its statements, or nil if there is none, or a *gorm.DB that
// is no transaction. One that has failed is returned with its error. The middleware of
// package dedup puts its own there.
func TxFrom(ctx context.Context) *gorm.DB {
	tx, _ := ctx.Value(txKey{}).(*gorm.DB)
	if tx == nil {
		return nil
	}
	if _, ok := transactionOf(tx.Statement.ConnPool); !ok && tx.Error == nil {
		return nil
	}
	return tx.Session(&gorm.Session{NewDB: true, Context: ctx})
}
