package relay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// eachConcurrent is testenv.Each for databases with more than one writer at a time.
func eachConcurrent(t *testing.T, fn func(t *testing.T, db testenv.Database)) {
	t.Helper()
	for name, database := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "mariadb": testenv.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, database(t))
		})
	}
}

// begin opens a transaction, which is rolled back at the end of the test unless it has ended.
func begin(t testing.TB, g *gorm.DB) *gorm.DB {
	t.Helper()
	tx := g.Begin()
	require.NoError(t, tx.Error)
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// load publishes events of other aggregates one after the other, for as many passes, until done says so.
func load(t testing.TB, g *gorm.DB, pub *recorder, prefix string, done func(n int) bool) {
	t.Helper()
	for i := 0; !done(i); i++ {
		payload := fmt.Sprint(prefix, i)
		add(t, g, event(fmt.Sprint("other", i%100), payload))
		pub.waitFor(t, payload)
	}
}

// passes returns when the saved low mark of the aggregate's partition has reached seq.
func passes(t testing.TB, g *gorm.DB, pub *recorder, aggregate string, seq int) {
	t.Helper()
	begin := time.Now()
	load(t, g, pub, "passing", func(int) bool {
		if lowOf(t, g, aggregate) >= seq {
			return true
		}
		if time.Since(begin) < 15*time.Second {
			return false
		}
		// Transaction ids are the server's, so other tests' transactions keep the mark, too.
		if g.Name() == "postgres" && countRows(t, g, "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start < now() - interval '5 s'") > 0 {
			t.Log("somebody else's transaction keeps the low mark")
			return true
		}
		require.Less(t, time.Since(begin), time.Minute, "the low mark stays")
		return false
	})
}

// TestAnEventThatCommitsManyPassesLater draws its number first. On MariaDB the
// transaction outlives the settle window and several looks for transactions in flight.
func TestAnEventThatCommitsManyPassesLater(t *testing.T) {
	t.Parallel()
	eachConcurrent(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		start(t, g, pub, quick())
		load(t, g, pub, "before", func(n int) bool { return n == 20 })
		tx := begin(t, g)
		require.NoError(t, gormoutbox.Append(tx, event("late", "late0")))
		until := time.Now().Add(3 * time.Second)
		load(t, g, pub, "between", func(n int) bool { return n > 100 && time.Now().After(until) })
		require.NoError(t, gormoutbox.Append(tx, event("late", "late1")))
		require.NoError(t, tx.Commit().Error)
		pub.waitFor(t, "late1")
		add(t, g, event("late", "late2"))
		pub.waitFor(t, "late2")
		assert.Equal(t, []string{"late0", "late1", "late2"}, pub.of("late"))

		passes(t, g, pub, "late", seqOf(t, g, "late2"))
	})
}

// TestALateCommitBeforeAHeldHead: nobody serialized the two writers, so there is no
// order to keep; but the event must not get lost behind the hold.
func TestALateCommitBeforeAHeldHead(t *testing.T) {
	t.Parallel()
	eachConcurrent(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("head"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 1
		start(t, g, pub, c)
		tx := begin(t, g)
		require.NoError(t, gormoutbox.Append(tx, event("k", "early")))
		add(t, g, event("k", "head"), event("k", "behind"))
		eventually(t, "the key is parked", func() bool { return states(t, g)["head"].Parked })
		require.NoError(t, tx.Commit().Error)
		passes(t, g, pub, "k", seqOf(t, g, "behind"))
		bad.cure()
		exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
		pub.waitFor(t, "early")
		pub.waitFor(t, "behind")
	})
}

// TestALateCommitBeforeAParkedHeadFailsToo: the head that waited is behind another one then.
func TestALateCommitBeforeAParkedHeadFailsToo(t *testing.T) {
	t.Parallel()
	eachConcurrent(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("early", "head"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 1
		start(t, g, pub, c)
		tx := begin(t, g)
		require.NoError(t, gormoutbox.Append(tx, event("k", "early")))
		add(t, g, event("k", "head"), event("k", "behind"))
		eventually(t, "the key is parked", func() bool { return states(t, g)["head"].Parked })
		require.NoError(t, tx.Commit().Error)
		early := seqOf(t, g, "early")
		eventually(t, "the key waits for the earlier one", func() bool { return countRows(t, g, "SELECT seq FROM outbox_held") == early })
		bad.cure()
		exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
		pub.waitFor(t, "behind")
		assert.Equal(t, []string{"early", "head", "behind"}, pub.payloads())
	})
}

func TestAnOpenWriterElsewhereStopsNobody(t *testing.T) {
	t.Parallel()
	eachConcurrent(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		require.NoError(t, g.AutoMigrate(&account{}))
		pub := newRecorder()
		start(t, g, pub, quick())
		tx := begin(t, g)
		require.NoError(t, tx.Create(&account{ID: 1}).Error)
		load(t, g, pub, "x", func(n int) bool { return n == 50 })
		require.NoError(t, tx.Commit().Error)
		passes(t, g, pub, "other1", seqOf(t, g, "x49"))
	})
}

func TestRolledBackTransactionsLeaveGaps(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		start(t, g, pub, quick())
		for i := range 20 {
			err := g.Transaction(func(tx *gorm.DB) error {
				if err := gormoutbox.Append(tx, series("gone", "gone", 3)...); err != nil {
					return err
				}
				return assert.AnError
			})
			require.ErrorIs(t, err, assert.AnError)
			add(t, g, event("k", fmt.Sprint("k", i)))
		}
		pub.wait(t, 20)
		assert.Empty(t, pub.of("gone"))
		passes(t, g, pub, "gone", seqOf(t, g, "k19"))
	})
}

// TestOrderAcrossTinyPages has many more keys and partitions than fit on a page.
func TestOrderAcrossTinyPages(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const keys, each = 60, 8
		g := open(t, db)
		random := rand.New(rand.NewPCG(1, 1))
		versions := map[int]int{}
		var events []gormoutbox.Event
		for len(events) < keys*each {
			k := random.IntN(keys)
			if versions[k] == each {
				continue
			}
			versions[k]++
			events = append(events, event(fmt.Sprint(k), fmt.Sprintf("%d:%d", k, versions[k])))
		}
		add(t, g, events...)
		pub := newRecorder()
		c := quick()
		c.BatchSize, c.Lanes = 3, 2
		stop := start(t, g, pub, c)
		pub.wait(t, keys*each)
		stop()
		checkOrder(t, pub.payloads(), keys*each)
	})
}

// TestOrderBesideRetriesInABacklog: aggregates are held and released while a walk over a backlog has passed their events.
func TestOrderBesideRetriesInABacklog(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const keys, each = 40, 60
		g := open(t, db)
		random := rand.New(rand.NewPCG(2, 2))
		var events []gormoutbox.Event
		versions := make([]int, keys)
		for len(events) < keys*each {
			if k := random.IntN(keys); versions[k] < each {
				versions[k]++
				events = append(events, event(fmt.Sprint(k), fmt.Sprintf("%d:%d", k, versions[k])))
			}
		}
		add(t, g, events...)
		var mu sync.Mutex
		failed := map[string]bool{}
		pub := newRecorder()
		pub.fail = func(_ string, msg *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if failed[msg.UUID] || random.IntN(25) > 0 {
				return nil
			}
			failed[msg.UUID] = true
			return errors.New("once")
		}
		c := quick()
		c.BatchSize, c.MinBackoff, c.MaxBackoff, c.MaxAttempts = 10, time.Millisecond, time.Millisecond, 1000
		c.Classify = func(error) relay.Class { return relay.Retryable }
		stop := start(t, g, pub, c)
		pub.wait(t, keys*each)
		stop()
		checkOrder(t, pub.payloads(), keys*each)
		assert.NotEmpty(t, failed)
	})
}
