package dedup_test

import (
	"context"
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) {
	// GORM's cache of prepared statements never ends its goroutine.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// effect is what handlers write.
type effect struct {
	ID        int64
	Consumer  string `gorm:"size:255"`
	MessageID string `gorm:"size:255"`
}

// bundle is a database with the tables, and a deduplicator on it.
type bundle struct {
	env testenv.Database
	db  *gorm.DB
	d   *dedup.Deduplicator
}

func setup(t *testing.T, env testenv.Database, config dedup.Config, cfg ...*gorm.Config) *bundle {
	t.Helper()
	b := &bundle{env: env, db: env.Open(t, cfg...)}
	b.pool(t).SetMaxOpenConns(8)
	require.NoError(t, dedup.Migrate(t.Context(), b.db))
	require.NoError(t, b.db.AutoMigrate(&effect{}))
	if config.Consumer == "" {
		config.Consumer = "stock"
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := dedup.New(b.db, config)
	require.NoError(t, err)
	b.d = d
	return b
}

func (b *bundle) pool(t *testing.T) *sql.DB {
	t.Helper()
	pool, err := b.db.DB()
	require.NoError(t, err)
	return pool
}

// deliver hands a new message with the id to the handler.
func (b *bundle) deliver(ctx context.Context, id string, handler func(msg *message.Message) error) error {
	msg := message.NewMessageWithContext(ctx, id, []byte("secret payload"))
	_, err := b.d.Middleware(consumer(handler))(msg) //nolint:contextcheck // The message has it.
	return err
}

func consumer(handler func(msg *message.Message) error) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) { return nil, handler(msg) }
}

// write is a handler that writes one effect.
func write(msg *message.Message) error {
	return dedup.Tx(msg.Context()).Create(&effect{Consumer: "stock", MessageID: msg.UUID}).Error
}

// forbidden is a handler that must not run.
func forbidden(t *testing.T) func(*message.Message) error {
	return func(*message.Message) error {
		t.Error("the handler ran")
		return nil
	}
}

func (b *bundle) effects(t *testing.T) int64 { t.Helper(); return b.count(t, "effects") }
func (b *bundle) records(t *testing.T) int64 { t.Helper(); return b.count(t, "processed_events") }

func (b *bundle) count(t *testing.T, table string) (n int64) {
	t.Helper()
	require.NoError(t, b.db.Table(table).Count(&n).Error)
	return n
}

// returned checks that all connections are back by the time the middleware returns.
func (b *bundle) returned(t *testing.T) {
	t.Helper()
	assert.Zero(t, b.pool(t).Stats().InUse, "connections in use")
}

// idle checks that all connections are back. After a lost context database/sql
// gives them back in a goroutine of its own.
func (b *bundle) idle(t *testing.T) {
	t.Helper()
	pool := b.pool(t)
	assert.Eventually(t, func() bool { return pool.Stats().InUse == 0 }, patience, time.Millisecond, "connections in use")
}

// isDone waits for a channel to be closed.
func isDone[T any](t *testing.T, done <-chan T, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(t, "timed out", what)
	}
}
