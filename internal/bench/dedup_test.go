package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type reservation struct {
	ID    string `gorm:"size:36;primaryKey"`
	Order string `gorm:"size:36"`
}

// consumerName is about as long as names of handlers are.
const consumerName = "stock.order_created"

// messagesOf is how many messages a variant handles in one turn.
func messagesOf(handlers int) int {
	if handlers == 1 {
		return 400
	}
	return 1600
}

// BenchmarkDedup compares a handler under dedup with the same handler in a transaction of its own.
func BenchmarkDedup(b *testing.B) {
	for _, c := range []int{1, 16} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			eachWriter(b, func(b *testing.B, db testenv.Database) { benchmarkDedup(b, db, c) })
		})
	}
}

func benchmarkDedup(b *testing.B, db testenv.Database, c int) {
	g := connections(b, db.Open(b), c) // no more are opened, and all stay
	require.NoError(b, g.AutoMigrate(&reservation{}))
	fillRecords(b, g, dedup.DefaultTable, newIDs(10_000, kindsOfIDs[0]))

	n := messagesOf(c)
	handlers := dedupHandlers{b: b, db: g}
	ownTx := handlers.ownTx()
	under := handlers.dedup(dedup.DefaultTable)
	// Keys of its own: the default is a hash of 32 bits, and messages with the same one would not be handled.
	repository, err := middleware.NewMapExpiringKeyRepository(time.Minute)
	require.NoError(b, err)
	watermills := (&middleware.Deduplicator{
		KeyFactory: func(msg *message.Message) (string, error) { return msg.UUID, nil },
		Repository: repository,
	}).Middleware(ownTx)

	handled := make([]string, n)
	interleave(b,
		variant{name: "own_tx", run: deliver(c, n, ownTx, fresh)},
		variant{name: "dedup", run: deliver(c, n, under, func(i int) string {
			handled[i] = uuid.NewString()
			return handled[i]
		})},
		// those of the dedup variant just now, once each
		variant{name: "duplicate", run: deliver(c, n, under, func(i int) string { return handled[i] })},
		variant{name: "deduplicator", run: deliver(c, n, watermills, fresh)},
	)

	var rows int64
	require.NoError(b, g.Model(&reservation{}).Count(&rows).Error)
	require.EqualValues(b, 3*n*(rounds+1), rows, "of three variants")
}

// dedupHandlers makes handlers that insert one row.
type dedupHandlers struct {
	b  *testing.B
	db *gorm.DB
}

func (h dedupHandlers) ownTx() message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, h.db.WithContext(msg.Context()).Transaction(func(tx *gorm.DB) error {
			return tx.Create(&reservation{uuid.NewString(), msg.UUID}).Error
		})
	}
}

func (h dedupHandlers) dedup(table string) message.HandlerFunc {
	h.b.Helper()
	d, err := dedup.New(h.db, dedup.Config{Consumer: consumerName, Table: table, Logger: quiet})
	require.NoError(h.b, err)
	return d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		return nil, dedup.Tx(msg.Context()).Create(&reservation{uuid.NewString(), msg.UUID}).Error
	})
}

// deliver hands n messages to a handler, by c goroutines. Each message has a context that ends, as those of subscribers do: drivers and
// database/sql do less for one that never does.
func deliver(c, n int, handler message.HandlerFunc, id func(i int) string) func(*testing.B) int {
	return func(b *testing.B) int {
		return parallel(b, c, n, func(i int) error {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			_, err := handler(message.NewMessageWithContext(ctx, id(i), []byte(`{"order":42}`)))
			return err
		})
	}
}

func fresh(int) string { return uuid.NewString() }
