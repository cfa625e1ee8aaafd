// The relay publishes the events of the orders' outbox to Kafka. Run as many as
// you like: they share the work, and the order of each aggregate holds.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gormoutbox/outbox/examples/kafka/internal/env"
	"github.com/gormoutbox/outbox/examples/kafka/internal/process"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

type config struct {
	dsn     string
	brokers []string
	lease   time.Duration
}

func main() { process.Main("relay", run) }

func run(ctx context.Context, log *slog.Logger) (err error) {
	var vars env.Vars
	cfg := config{
		dsn:     vars.String("ORDERS_DSN", env.Postgres),
		brokers: vars.List("KAFKA_BROKERS", env.Kafka),
		lease:   vars.Duration("RELAY_LEASE", 10*time.Second),
	}
	if err := vars.Err(); err != nil {
		return err
	}

	db, closeDB, err := process.OpenPostgres(cfg.dsn)
	if err != nil {
		return err
	}
	defer closeDB()
	// Whoever starts first migrates, and the others wait for it.
	if err := gormoutbox.Migrate(ctx, db); err != nil {
		return fmt.Errorf("migrating the outbox: %w", err)
	}

	publisher, err := kafka.NewPublisher(cfg.brokers, log)
	if err != nil {
		return err
	}
	// After Run, which has no publish in flight when it returns.
	defer func() { err = errors.Join(err, publisher.Close()) }()

	r, err := relay.New(db, publisher, relay.Config{Lease: cfg.lease, Logger: log})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
