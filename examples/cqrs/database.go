package main

import (
	"context"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

// Order is a row of the shop. That one was created is an event, order.created,
// which the plugin writes in the same transaction.
type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order,on=created,topic=orders"`
	ID     int64
	Item   string
	Status string
}

// Parcel is what shipping an order leaves behind. Nothing in the database
// forbids a second one for the same order: it is dedup that prevents it.
type Parcel struct {
	ID      int64
	OrderID int64
}

// TimelineEntry is a line of the read model, numbered as it came in.
type TimelineEntry struct {
	ID      int64
	OrderID int64
	What    string
}

// openDatabase opens the database with the plugin and brings its tables up to
// date. The function that it returns closes it.
func openDatabase(ctx context.Context, path string) (*gorm.DB, func(), error) {
	// _txlock=immediate: a SQLite transaction that reads first can't wait for the write lock later.
	dsn := path + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate"
	db, err := gorm.Open(sqlite.Open(dsn), &gorm.Config{Logger: logger.Default.LogMode(logger.Error)})
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	if err := prepare(ctx, db); err != nil {
		_ = pool.Close()
		return nil, nil, err
	}
	return db, func() { _ = pool.Close() }, nil
}

func prepare(ctx context.Context, db *gorm.DB) error {
	if err := db.Use(gormoutbox.New(gormoutbox.Config{Models: []any{Order{}}})); err != nil {
		return err
	}
	if err := gormoutbox.Migrate(ctx, db); err != nil {
		return err
	}
	if err := dedup.Migrate(ctx, db); err != nil {
		return err
	}
	return db.WithContext(ctx).AutoMigrate(&Order{}, &Parcel{}, &TimelineEntry{})
}
