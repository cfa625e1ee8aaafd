// The service takes orders over HTTP. An order and its event are saved in one
// transaction; the service knows nothing of Kafka, and works without it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/examples/kafka/internal/env"
	"github.com/gormoutbox/outbox/examples/kafka/internal/process"
	"github.com/gormoutbox/outbox/gormoutbox"
)

type config struct {
	address string
	dsn     string
	topic   string
}

func main() { process.Main("service", run) }

func run(ctx context.Context, log *slog.Logger) error {
	var vars env.Vars
	cfg := config{
		address: vars.String("HTTP_ADDRESS", "127.0.0.1:8080"),
		dsn:     vars.String("ORDERS_DSN", env.Postgres),
		topic:   vars.String("ORDERS_TOPIC", "orders"),
	}
	if err := vars.Err(); err != nil {
		return err
	}

	db, closeDB, err := process.OpenPostgres(cfg.dsn)
	if err != nil {
		return err
	}
	defer closeDB()
	if err := prepare(ctx, db, cfg.topic); err != nil {
		return err
	}
	return serve(ctx, log, cfg.address, newHandler(db, log))
}

// prepare registers the plugin and brings the tables up to date.
func prepare(ctx context.Context, db *gorm.DB, topic string) error {
	plugin := gormoutbox.New(gormoutbox.Config{
		Models: []any{Order{}}, // mistakes in the annotation show now
		// One topic for all events of an order: Kafka keeps order within a
		// topic only, and the default is a topic for each event type. Where
		// the name needs no setting, topic=orders in the model's tag does the same.
		Topic: func(gormoutbox.TopicParams) string { return topic },
	})
	if err := db.Use(plugin); err != nil {
		return fmt.Errorf("registering the outbox: %w", err)
	}
	if err := gormoutbox.Migrate(ctx, db); err != nil {
		return fmt.Errorf("migrating the outbox: %w", err)
	}
	if err := db.WithContext(ctx).AutoMigrate(&Order{}); err != nil {
		return fmt.Errorf("migrating the orders: %w", err)
	}
	return nil
}

// serve answers requests until ctx ends, and then those that are being handled.
func serve(ctx context.Context, log *slog.Logger, address string, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.InfoContext(ctx, "listening", slog.String("address", listener.Addr().String()))

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
