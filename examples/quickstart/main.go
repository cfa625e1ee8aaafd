// Quickstart is the whole chain in one process: a GORM save writes an order and
// its event in one transaction, a relay publishes the event, and a consumer
// applies it once although it is delivered twice. SQLite and an in-process
// Pub/Sub: no server, no C compiler, no configuration.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/uuid"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/chain"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
)

// Order is saved by the shop. The marker makes its saves events.
type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order"`
	ID     uuid.UUID
	Status string
	Card   string `outbox:"-"` // never leaves the database
}

// Reservation is what the stock consumer writes for an order.
type Reservation struct {
	ID      uint
	OrderID uuid.UUID
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// The database, with the plugin and the tables. A service has two databases; one is enough here.
	db, err := openDatabase(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() {
		if pool, e := db.DB(); e == nil {
			_ = pool.Close()
		}
	}()

	// The Pub/Sub; with Kafka this would be watermilladapter/kafka.
	quiet := slog.New(slog.DiscardHandler)
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NewSlogLogger(quiet))
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(quiet))
	if err != nil {
		return err
	}

	// The consumer: its record, its effects and nothing else commit together.
	d, err := dedup.New(db, dedup.Config{})
	if err != nil {
		return err
	}
	handled := make(chan *message.Message, 10)
	if err := chain.Install(router, d, chain.Config{}); err != nil {
		return err
	}
	router.AddConsumerHandler("stock", "order.created", pubsub, reserve(handled)) //nolint:contextcheck // a handler has the context of its message

	// The relay runs within the router, from its start until it is drained.
	r, err := relay.New(db, pubsub, relay.Config{Logger: quiet})
	if err != nil {
		return err
	}
	router.AddPlugin(r.RouterPlugin)
	stopped := make(chan error, 1)
	go func() { stopped <- router.Run(ctx) }()
	defer func() {
		if e := router.Close(); err == nil {
			err = e
		}
		if e := <-stopped; err == nil {
			err = e
		}
	}()
	select {
	case <-router.Running():
	case err := <-stopped:
		stopped <- nil
		return fmt.Errorf("the router did not start: %w", err)
	}

	// Save an order: the row and its event, both or neither.
	order := Order{ID: uuid.New(), Status: "placed", Card: "4111 1111 1111 1111"}
	if err := db.WithContext(ctx).Create(&order).Error; err != nil {
		return err
	}
	fmt.Printf("saved      order %s, status %s\n", order.ID, order.Status)

	var msg *message.Message
	select {
	case msg = <-handled:
	case <-ctx.Done():
		return fmt.Errorf("nothing was consumed: %w", ctx.Err())
	}
	fmt.Printf("published  %s %s\n           %s\n", msg.Metadata.Get(gormoutbox.HeaderEventType), msg.UUID, msg.Payload)

	// Deliver the same message once more, as brokers do. The call returns when it was acknowledged.
	if err := pubsub.Publish("order.created", msg.Copy()); err != nil {
		return err
	}
	var reservations int64
	if err := db.WithContext(ctx).Model(&Reservation{}).Where("order_id = ?", order.ID).Count(&reservations).Error; err != nil {
		return err
	}
	fmt.Printf("consumed   %d reservation for the order\n", reservations)
	fmt.Printf("redelivery changed nothing: handler ran %d time, %d reservation\n", 1+len(handled), reservations)
	if reservations != 1 || len(handled) != 0 {
		return fmt.Errorf("a redelivery must change nothing")
	}
	return nil
}

// reserve is the consumer's handler. It reports the messages that it was called for.
func reserve(handled chan<- *message.Message) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		var order Order
		if err := json.Unmarshal(msg.Payload, &order); err != nil {
			return err
		}
		handled <- msg
		return dedup.Tx(msg.Context()).Create(&Reservation{OrderID: order.ID}).Error
	}
}

func openDatabase(ctx context.Context, path string) (*gorm.DB, error) {
	// _txlock=immediate: a SQLite transaction that reads first can't wait for the write lock later.
	dsn := path + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate"
	db, err := gorm.Open(sqlite.Open(dsn), &gorm.Config{Logger: logger.Default.LogMode(logger.Error)})
	if err != nil {
		return nil, err
	}
	if err := db.Use(gormoutbox.New(gormoutbox.Config{Models: []any{Order{}}})); err != nil {
		return nil, err
	}
	if err := gormoutbox.Migrate(ctx, db); err != nil {
		return nil, err
	}
	if err := dedup.Migrate(ctx, db); err != nil {
		return nil, err
	}
	return db, db.WithContext(ctx).AutoMigrate(&Order{}, &Reservation{})
}
