// CQRS is Watermill's CQRS component over an outbox, in one process: the buses
// write commands and events into the database, in the transaction of the handler
// that sends them, and the event of a GORM save joins them. Each message is
// delivered twice and a handler fails on its way; every effect is there
// once. SQLite and an in-process Pub/Sub: no server, no configuration.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run places two orders, waits until they are shipped, and says what has become of them.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "cqrs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, closeDB, err := openDatabase(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer closeDB()

	items := []string{"tea", "coffee"}
	broker := newBroker("order.shipped", len(items))
	defer func() { err = errors.Join(err, broker.shutdown()) }()
	post := &carrier{}
	a, err := newApp(db, broker, post)
	if err != nil {
		return err
	}
	if err := a.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }() // once more does nothing

	for _, item := range items {
		// The row and its event, both or neither.
		if err := db.WithContext(ctx).Create(&Order{Item: item, Status: "placed"}).Error; err != nil {
			return err
		}
	}
	if err := broker.wait(ctx); err != nil {
		return err
	}
	if err := a.stop(); err != nil {
		return err
	}
	return report(ctx, out, db, broker, post, a.once.Stats())
}
