package dedup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
)

type Reservation struct {
	ID      int64
	OrderID string
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A message that comes twice reserves once.
func Example() {
	dir, err := os.MkdirTemp("", "dedup")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // An example's rest is harmless.
	db, err := gorm.Open(sqlite.Open(filepath.Join(dir, "stock.db") + "?_txlock=immediate&_busy_timeout=10000&_journal_mode=WAL"))
	check(err)
	check(db.AutoMigrate(&Reservation{}))

	ctx := context.Background()
	check(dedup.Migrate(ctx, db))
	d, err := dedup.New(db, dedup.Config{})
	check(err)

	pubSub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router := message.NewDefaultRouter(watermill.NopLogger{})
	router.AddMiddleware(d.Middleware)
	router.AddConsumerHandler("stock", "order.created", pubSub, func(msg *message.Message) error {
		fmt.Println("reserving for", string(msg.Payload))
		return dedup.Tx(msg.Context()).Create(&Reservation{OrderID: string(msg.Payload)}).Error
	})
	stopped := make(chan error, 1)
	go func() { stopped <- router.Run(ctx) }()
	<-router.Running()

	id := watermill.NewUUID()
	for range 2 { // as a broker does after a lost ack
		check(pubSub.Publish("order.created", message.NewMessage(id, []byte("order-1"))))
	}
	check(router.Close())
	check(<-stopped)

	var n int64
	check(db.Model(&Reservation{}).Count(&n).Error)
	fmt.Println("reservations:", n)
	fmt.Printf("%+v\n", d.Stats())

	pool, err := db.DB()
	check(err)
	check(pool.Close())
	// Output:
	// reserving for order-1
	// reservations: 1
	// {Committed:1 Duplicates:1 Failed:0 Stale:0 Late:0 Gaps:0}
}
