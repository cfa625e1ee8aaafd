package pgwake_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// The service saves, and tells the relays of other processes.
func ExampleNotifier() {
	const url = "postgres://shop@db/shop"
	db, err := gorm.Open(postgres.Open(url))
	check(err)
	plugin := gormoutbox.New(gormoutbox.Config{})
	check(db.Use(plugin))

	notifier, err := pgwake.NewNotifier(plugin, pgwake.Config{ConnString: url})
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	check(notifier.Run(ctx)) // beside the server of the service
}

// A process of its own relays, and is told of what the services save. The address leads past a transaction pooler.
func ExampleListener() {
	const url = "postgres://relay@db/shop"
	db, err := gorm.Open(postgres.Open(url))
	check(err)
	publisher := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{}) // or that of a broker

	listener, err := pgwake.NewListener(pgwake.Config{ConnString: url})
	check(err)
	r, err := relay.New(db, publisher, relay.Config{Wake: listener.Subscribe()})
	check(err)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { check(listener.Run(ctx)) })
	check(r.Run(ctx))
	wg.Wait()
	if status := listener.Status(); status.Err != nil {
		log.Print(status.Err) // pgwake.ErrDeaf, perhaps: the relay polled
	}
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
