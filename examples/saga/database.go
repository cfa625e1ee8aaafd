package main

import (
	"context"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

// openDatabase opens a database with the plugin and brings its tables up to
// date. The function that it returns closes it.
func openDatabase(ctx context.Context, path string, models ...any) (*gorm.DB, func(), error) {
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
	if err := migrate(ctx, db, models...); err != nil {
		_ = pool.Close()
		return nil, nil, err
	}
	return db, func() { _ = pool.Close() }, nil
}

func migrate(ctx context.Context, db *gorm.DB, models ...any) error {
	if err := db.Use(gormoutbox.New(gormoutbox.Config{})); err != nil {
		return err
	}
	if err := gormoutbox.Migrate(ctx, db); err != nil {
		return err
	}
	if err := dedup.Migrate(ctx, db); err != nil {
		return err
	}
	return db.WithContext(ctx).AutoMigrate(models...)
}
