// The stock reserves what is ordered, in its own database. Kafka may deliver an
// event more than once, and a crash may come at any time; each event has its
// effect once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/examples/kafka/internal/env"
	"github.com/gormoutbox/outbox/examples/kafka/internal/process"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

type config struct {
	dsn     string
	brokers []string
	topic   string
	group   string
}

func main() { process.Main("stock", run) }

func run(ctx context.Context, log *slog.Logger) (err error) {
	var vars env.Vars
	cfg := config{
		dsn:     vars.String("STOCK_DSN", env.Postgres),
		brokers: vars.List("KAFKA_BROKERS", env.Kafka),
		topic:   vars.String("ORDERS_TOPIC", "orders"),
		group:   vars.String("STOCK_GROUP", "stock"),
	}
	if err := vars.Err(); err != nil {
		return err
	}

	db, closeDB, err := process.OpenPostgres(cfg.dsn)
	if err != nil {
		return err
	}
	defer closeDB()
	if err := migrate(ctx, db); err != nil {
		return err
	}

	subscriber, err := kafka.NewSubscriber(cfg.brokers, cfg.group, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subscriber.Close()) }()
	publisher, err := kafka.NewPublisher(cfg.brokers, log) // for what can't be handled
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()

	router, err := newRouter(db, log, cfg.topic, subscriber, publisher)
	if err != nil {
		return err
	}
	// Close lets the handlers finish, which a canceled context of Run would not.
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- router.Close() })
	if err := router.Run(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if stop() {
		return errors.New("the router stopped by itself; see the log")
	}
	return <-closed
}

func migrate(ctx context.Context, db *gorm.DB) error {
	if err := dedup.Migrate(ctx, db); err != nil {
		return err
	}
	if err := db.WithContext(ctx).AutoMigrate(&Item{}, &Reservation{}); err != nil {
		return fmt.Errorf("migrating the stock: %w", err)
	}
	return nil
}
