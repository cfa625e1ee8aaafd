package formats_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/examples/formats"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay"
)

// orderID is that of the examples' order.
var orderID = uuid.MustParse("7d0c2a4e-3a51-4f5b-9a43-0b7a3f1c2d5e")

// shop is a database with an outbox, and a relay that publishes it to a channel.
type shop struct {
	*gorm.DB

	messages chan *message.Message
	stop     context.CancelFunc
	stopped  chan error
	dir      string
}

func openShop(config gormoutbox.Config) *shop {
	dir, err := os.MkdirTemp("", "formats")
	check(err)
	dsn := filepath.Join(dir, "shop.db") + "?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate"
	db, err := gorm.Open(sqlite.Open(dsn), &gorm.Config{Logger: logger.Discard})
	check(err)
	check(db.Use(gormoutbox.New(config)))
	ctx, stop := context.WithCancel(context.Background())
	check(gormoutbox.Migrate(ctx, db))
	check(db.AutoMigrate(&formats.Order{}, &formats.Refund{}))

	s := &shop{DB: db, messages: make(chan *message.Message), stop: stop, stopped: make(chan error, 1), dir: dir}
	r, err := relay.New(db, publisher{ctx, s.messages}, relay.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	go func() { s.stopped <- r.Run(ctx) }()
	return s
}

// testShop is openShop for a test.
func testShop(t *testing.T, config gormoutbox.Config) *shop {
	t.Helper()
	s := openShop(config)
	t.Cleanup(s.close)
	return s
}

// next is the next message that the relay publishes.
func (s *shop) next() *message.Message {
	select {
	case msg := <-s.messages:
		return msg
	case <-time.After(30 * time.Second):
		panic("no message")
	}
}

func (s *shop) close() {
	s.stop()
	check(<-s.stopped)
	pool, err := s.DB.DB()
	check(err)
	check(pool.Close())
	check(os.RemoveAll(s.dir))
}

type publisher struct {
	ctx      context.Context
	messages chan<- *message.Message
}

func (p publisher) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		select {
		case p.messages <- msg:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return nil
}

func (publisher) Close() error { return nil }

func check(err error) {
	if err != nil {
		panic(err)
	}
}
