// Package process has what the three processes of the example share: how they
// start, how they stop, and how they open their databases.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Main runs the process name and ends it: with status 0 if run returns nil, or was
// stopped while it started, else with status 1. The context ends with SIGINT
// or SIGTERM; a second signal kills.
func Main(name string, run func(ctx context.Context, log *slog.Logger) error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With(slog.String("process", name))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)

	log.InfoContext(ctx, "starting")
	err := run(ctx, log)
	stoppedEarly := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err != nil && !stoppedEarly {
		log.ErrorContext(ctx, "stopped", slog.Any("error", err))
		os.Exit(1)
	}
	log.InfoContext(ctx, "stopped")
}

// OpenPostgres opens a pool and checks that the database answers. The function
// that it returns closes the pool.
func OpenPostgres(dsn string) (*gorm.DB, func(), error) {
	db, err := gorm.Open(postgres.Open(dsn), &gorm.Config{
		TranslateError: true,           // gorm.ErrDuplicatedKey
		Logger:         logger.Discard, // errors are returned, and logged where they are not expected
	})
	if err != nil {
		return nil, nil, fmt.Errorf("opening the database: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, fmt.Errorf("opening the database: %w", err)
	}
	return db, func() { _ = pool.Close() }, nil
}
