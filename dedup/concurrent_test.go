package dedup_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Two consumers, each with 16 deliveries of every message at once from two
// processes. Some handlers fail at first, after they have written. What a broker
// does with an error, the test does: it delivers again.
func TestConcurrentDeliveriesHaveOneEffect(t *testing.T) {
	t.Parallel()
	const deliveries, processes = 16, 2
	messages := 500
	if testing.Short() {
		messages = 50
	}
	consumers := []string{"stock", "billing"}

	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var bundles [processes]*bundle
		for i := range bundles {
			bundles[i] = setup(t, env, dedup.Config{})
			if env.Name == "sqlite" { // one writer: waiting for a connection is fairer than for the file
				bundles[i].pool(t).SetMaxOpenConns(1)
			}
		}
		byConsumer := map[string][processes]*dedup.Deduplicator{}
		for _, name := range consumers {
			var ds [processes]*dedup.Deduplicator
			for i, b := range bundles {
				d, err := dedup.New(b.db, dedup.Config{Consumer: name})
				require.NoError(t, err)
				ds[i] = d
			}
			byConsumer[name] = ds
		}

		var failed sync.Map // handlers that have failed once
		var runs, errs atomic.Int64
		handler := func(name string) message.HandlerFunc {
			return consumer(func(msg *message.Message) error {
				runs.Add(1)
				if err := dedup.Tx(msg.Context()).Create(&effect{Consumer: name, MessageID: msg.UUID}).Error; err != nil {
					return err
				}
				if _, before := failed.LoadOrStore(name+msg.UUID, true); !before && msg.UUID[len(msg.UUID)-1] == '3' {
					return errHandler
				}
				return nil
			})
		}
		var wg sync.WaitGroup
		for worker := range deliveries {
			wg.Go(func() {
				for i := range messages {
					for _, name := range consumers {
						h := byConsumer[name][worker%processes].Middleware(handler(name))
						for attempt := 0; ; attempt++ {
							_, err := h(message.NewMessageWithContext(t.Context(), fmt.Sprintf("m%d", i), nil))
							if err == nil {
								break
							}
							errs.Add(1)
							if !assert.Less(t, attempt, 100, "%v", err) {
								return
							}
						}
					}
				}
			})
		}
		wg.Wait()

		var total dedup.Stats
		for _, ds := range byConsumer {
			for _, d := range ds {
				s := d.Stats()
				total = dedup.Stats{Committed: total.Committed + s.Committed, Duplicates: total.Duplicates + s.Duplicates, Failed: total.Failed + s.Failed}
			}
		}
		t.Logf("%+v, %d runs, %d errors", total, runs.Load(), errs.Load())
		all := int64(messages * len(consumers))
		assert.EqualValues(t, all, total.Committed)
		assert.EqualValues(t, all*deliveries-all, total.Duplicates)
		assert.EqualValues(t, errs.Load(), total.Failed)
		assert.GreaterOrEqual(t, errs.Load(), all/10, "the failures that were asked for")

		b := bundles[0]
		assert.Equal(t, all, b.effects(t))
		assert.Equal(t, all, b.records(t))
		var distinct int64
		require.NoError(t, b.db.Raw("SELECT count(*) FROM (SELECT DISTINCT consumer, message_id FROM effects) d").Scan(&distinct).Error)
		assert.Equal(t, all, distinct)
		for _, b := range bundles {
			b.idle(t)
		}
	})
}

const waitingOnPostgres = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = current_setting('application_name')`

// waiting are queries for the number of inserts of this database that wait for a lock. MariaDB's
// innodb_trx is a cache, which isn't refreshed while it is polled, so an insert that takes long is taken to wait.
var waiting = map[string]string{
	"postgres":   waitingOnPostgres,
	"postgres18": waitingOnPostgres,
	"mariadb":    `SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT IGNORE%' AND time_ms > 300`,
}

// serverDatabases runs fn on the databases that have more than one writer.
func serverDatabases(t *testing.T, fn func(t *testing.T, env testenv.Database)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "mariadb": testenv.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fresh(t)
			if name == "postgres" {
				env.DSN += "&application_name=" + t.Name() // of this test alone
			}
			fn(t, env)
		})
	}
}

func (b *bundle) awaitLockWait(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int64
		return b.db.Raw(waiting[b.env.Name]).Scan(&n).Error == nil && n > 0
	}, patience, 20*time.Millisecond, "nobody waits for a lock")
}

func TestSecondDeliveryWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{"committed": nil, "failed": errHandler} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serverDatabases(t, func(t *testing.T, env testenv.Database) {
				b := setup(t, env, dedup.Config{})
				inside, leave := make(chan struct{}), make(chan struct{})
				held, second := make(chan error, 1), make(chan error, 1)
				var secondRan atomic.Bool
				go func() {
					held <- b.deliver(t.Context(), "m1", func(msg *message.Message) error {
						if err := write(msg); err != nil {
							return err
						}
						close(inside)
						<-leave
						return first
					})
				}()
				isDone(t, inside, "the held delivery")
				go func() {
					second <- b.deliver(t.Context(), "m1", func(msg *message.Message) error {
						secondRan.Store(true)
						return write(msg)
					})
				}()
				b.awaitLockWait(t)
				assert.False(t, secondRan.Load())
				close(leave)
				require.ErrorIs(t, <-held, first)
				require.NoError(t, <-second)
				assert.Equal(t, first != nil, secondRan.Load())
				assert.EqualValues(t, 1, b.effects(t))
				b.idle(t)
			})
		})
	}
}

// After the wait a handler must see what the other delivery's rollback, and
// others' commits meanwhile, have left: also at REPEATABLE READ on MariaDB.
func TestReadsAfterTheWaitAreFresh(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		inside, leave := make(chan struct{}), make(chan struct{})
		results := make(chan error, 2)
		go func() {
			results <- b.deliver(t.Context(), "m1", func(*message.Message) error {
				close(inside)
				<-leave
				return errHandler
			})
		}()
		isDone(t, inside, "the first delivery")
		second := make(chan error, 1)
		go func() {
			second <- b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				var n int64
				if err := dedup.Tx(msg.Context()).Model(&effect{}).Count(&n).Error; err != nil {
					return err
				}
				assert.EqualValues(t, 1, n, "committed while this delivery waited")
				return nil
			})
		}()
		b.awaitLockWait(t)
		require.NoError(t, b.db.Create(&effect{MessageID: "other"}).Error)
		close(leave)
		require.ErrorIs(t, <-results, errHandler)
		require.NoError(t, <-second)
	})
}

func TestCancelEndsTheWaitForAnotherDelivery(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		inside, leave := make(chan struct{}), make(chan struct{})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			first <- b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				close(inside)
				<-leave
				return write(msg)
			})
		}()
		isDone(t, inside, "the first delivery")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { second <- b.deliver(ctx, "m1", forbidden(t)) }()
		b.awaitLockWait(t)
		cancel()
		require.Error(t, <-second)
		close(leave)
		require.NoError(t, <-first)
		assert.EqualValues(t, 1, b.effects(t))
		b.idle(t)
	})
}

// A deadlock between handlers is an error of one of them; its message comes again.
func TestDeadlockIsCuredByRedelivery(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		require.NoError(t, b.db.Create([]effect{{ID: 1, MessageID: "row"}, {ID: 2, MessageID: "row"}}).Error)
		var both sync.WaitGroup
		both.Add(2)
		crosswise := func(first, second int64, once *sync.Once) func(*message.Message) error {
			return func(msg *message.Message) error {
				tx := dedup.Tx(msg.Context())
				add := func(id int64) error {
					return tx.Model(&effect{}).Where("id = ?", id).Update("consumer", gorm.Expr("concat(consumer, '"+msg.UUID+"')")).Error
				}
				err := add(first)
				once.Do(func() { both.Done(); both.Wait() })
				if err != nil {
					return err
				}
				return add(second)
			}
		}
		var failures atomic.Int64
		var wg sync.WaitGroup
		for id, order := range map[string][2]int64{"x": {1, 2}, "y": {2, 1}} {
			var once sync.Once
			h := crosswise(order[0], order[1], &once)
			wg.Go(func() {
				for range 10 {
					err := b.deliver(t.Context(), id, h)
					if err == nil {
						return
					}
					assert.Regexp(t, "(?i)deadlock", err.Error())
					failures.Add(1)
				}
				assert.Fail(t, "still failing")
			})
		}
		wg.Wait()
		assert.Positive(t, failures.Load())
		var rows []effect
		require.NoError(t, b.db.Order("id").Find(&rows).Error)
		for _, row := range rows {
			assert.Len(t, row.Consumer, 2, "each message once: %q", row.Consumer)
		}
		b.idle(t)
	})
}

// TestReadUncommitted: sessions at READ UNCOMMITTED see records of handlers that may still fail. The look for a record behind a duplicate does not.
func TestReadUncommitted(t *testing.T) {
	t.Parallel()
	env := testenv.MariaDB(t)
	b := setup(t, env, dedup.Config{})
	pool := b.pool(t)
	pool.SetMaxOpenConns(3)
	pool.SetMaxIdleConns(3)
	var conns []*sql.Conn
	for range 3 {
		conn, err := pool.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	inside, leave, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first <- b.deliver(t.Context(), "m1", func(*message.Message) error {
			close(inside)
			<-leave
			return errHandler
		})
	}()
	isDone(t, inside, "the handler")
	for range 2 {
		require.NoError(t, b.deliver(t.Context(), "a duplicate", write))
	}
	second := make(chan error, 1)
	go func() { second <- b.deliver(t.Context(), "m1", write) }()
	b.awaitLockWait(t)
	close(leave)
	require.ErrorIs(t, <-first, errHandler)
	require.NoError(t, <-second)
	assert.EqualValues(t, 2, b.effects(t))
	assert.EqualValues(t, 2, b.records(t))
}
