package deduptest_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/deduptest"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/outboxtest"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

type effect struct {
	ID        int64
	MessageID string
}

// TestConsumersOnABadDay: whatever is done with its messages, a handler under dedup has its effects and outputs once.
func TestConsumersOnABadDay(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*gorm.Config{"plain": {}, "prepared": {PrepareStmt: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, env testenv.Database) {
				db := env.Open(t, config)
				if env.Name == "sqlite" {
					sqlDB, err := db.DB()
					require.NoError(t, err)
					sqlDB.SetMaxOpenConns(1)
				}
				commits := deduptest.WatchCommits(t, db)
				require.NoError(t, db.Use(gormoutbox.New(gormoutbox.Config{Logger: slog.New(slog.DiscardHandler)})))
				require.NoError(t, gormoutbox.Migrate(t.Context(), db))
				require.NoError(t, dedup.Migrate(t.Context(), db))
				require.NoError(t, db.AutoMigrate(&effect{}))
				d, err := dedup.New(db, dedup.Config{})
				require.NoError(t, err)
				var runs atomic.Int64
				c := deduptest.NewConsumer(t, deduptest.Config{Deduplicator: d, PublishTopic: "done", Handler: func(msg *message.Message) ([]*message.Message, error) {
					if err := dedup.Tx(msg.Context()).Create(&effect{MessageID: msg.UUID}).Error; err != nil {
						return nil, err
					}
					if runs.Add(1)%3 == 1 {
						return nil, errors.New("the handler fails now and then")
					}
					return message.Messages{message.NewMessage("out", []byte(msg.UUID))}, nil
				}})
				var all []*message.Message
				next := func() *message.Message {
					all = append(all, message.NewMessage(fmt.Sprintf("m%d", len(all)), nil))
					return all[len(all)-1]
				}
				c.Twice(next())
				c.Concurrently(next(), 16)
				for _, failure := range []deduptest.Failure{deduptest.CommitRefused, deduptest.CommitLost} {
					runs.Store(1) // this handler does not fail
					commits.FailNext(failure)
					assert.Equal(t, 2, c.UntilAcked(next()))
				}
				assert.Equal(t, 2, commits.Failed())
				c.OutOfOrder(7, next(), next(), next(), next())

				var n int64
				require.NoError(t, db.Model(&effect{}).Count(&n).Error)
				assert.EqualValues(t, len(all), n)
				require.NoError(t, db.Model(&effect{}).Distinct("message_id").Count(&n).Error)
				assert.EqualValues(t, len(all), n)
				broker := &outboxtest.Broker{}
				outboxtest.Drain(t, db, broker)
				seen := map[string]int{}
				for _, p := range broker.Published() {
					assert.Equal(t, "done", p.Topic)
					seen[string(p.Message.Payload)]++
				}
				assert.Len(t, seen, len(all))
				for id, times := range seen {
					assert.Equal(t, 1, times, id)
				}
			})
		})
	}
}

// TestWithoutDedup: the helpers notice a handler that is not idempotent.
func TestWithoutDedup(t *testing.T) {
	t.Parallel()
	runs := 0
	c := deduptest.NewConsumer(t, deduptest.Config{
		Middlewares: []message.HandlerMiddleware{func(h message.HandlerFunc) message.HandlerFunc { return h }},
		Handler: func(*message.Message) ([]*message.Message, error) {
			if runs++; runs == 2 {
				return nil, errors.New("once")
			}
			return nil, nil
		},
	})
	msg := message.NewMessage("m", nil)
	assert.True(t, c.Deliver(msg))
	assert.False(t, c.Deliver(msg))
	assert.Equal(t, 1, c.UntilAcked(msg))
	c.Twice(msg)
	assert.Equal(t, 5, runs)
}
