package relay_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// account is an aggregate whose row its writers change, which serializes them.
type account struct {
	ID      int `gorm:"primaryKey;autoIncrement:false"`
	Version int
}

const (
	orderEvents     = 20_000
	orderAggregates = 200
	orderWriters    = 8
	orderRelays     = 4
)

// TestOrderWithLateCommits has writers whose transactions overlap, commit out of order
// and are open for up to 300 ms, and several relays with pools of their own.
func TestOrderWithLateCommits(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) { orderWithLateCommits(t, db, open(t, db)) })
}

func orderWithLateCommits(t *testing.T, db testenv.Database, g *gorm.DB) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, g.AutoMigrate(&account{}))
	accounts := make([]account, orderAggregates)
	for i := range accounts {
		accounts[i].ID = i + 1
	}
	require.NoError(t, g.Create(&accounts).Error)

	pub := newRecorder()
	var stops []func()
	for range orderRelays {
		other := db.Open(t)
		limitPool(t, other)
		stops = append(stops, start(t, other, pub, relay.Config{Lease: time.Minute}))
	}
	total := writeAccounts(t, db)
	pub.wait(t, total)
	eventually(t, "everything is settled", func() bool {
		return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
	})
	for _, stop := range stops {
		stop()
	}
	checkOrder(t, pub.payloads(), total)
	assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL OR attempts > 0"))
	t.Logf("%d events of %d aggregates, %d writers, %d relays: %s", total, orderAggregates, orderWriters, orderRelays, time.Since(begin).Round(time.Millisecond))
}

func limitPool(t testing.TB, g *gorm.DB) {
	t.Helper()
	pool, err := g.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(5)
}

// writeAccounts writes orderEvents events and returns their number.
func writeAccounts(t testing.TB, db testenv.Database) int {
	t.Helper()
	var wg sync.WaitGroup
	for w := range orderWriters {
		g := db.Open(t)
		limitPool(t, g)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for left := orderEvents / orderWriters; left > 0; {
				n := min(left, 1+random.IntN(9))
				// As any service would, since SQLite's lock is not fair: a failed transaction
				// has left neither versions nor events.
				var err error
				for range 20 {
					if err = writeTransaction(g, random, n); err == nil {
						break
					}
				}
				if !assert.NoError(t, err) {
					return
				}
				left -= n
			}
		})
	}
	wg.Wait()
	return orderEvents
}

// writeTransaction raises the versions of n accounts and appends an event for
// each, some of them before a pause in which the transaction stays open. The pause is
// its load; nothing waits for it.
func writeTransaction(g *gorm.DB, random *rand.Rand, n int) error {
	ids := random.Perm(orderAggregates)[:n]
	for i := range ids {
		ids[i]++ // a zero key is none
	}
	pause := time.Duration(random.IntN(3)) * time.Millisecond
	if random.IntN(200) == 0 {
		pause = time.Duration(random.IntN(300)) * time.Millisecond
	}
	early := random.IntN(n + 1)
	return g.Transaction(func(tx *gorm.DB) error {
		var accounts []account
		lock := tx
		if g.Name() != "sqlite" {
			lock = tx.Clauses(clause.Locking{Strength: "UPDATE"})
		}
		if err := lock.Order("id").Find(&accounts, ids).Error; err != nil {
			return err
		}
		if err := tx.Model(&account{}).Where("id IN ?", ids).Update("version", gorm.Expr("version + 1")).Error; err != nil {
			return err
		}
		events := make([]gormoutbox.Event, n)
		for i, a := range accounts {
			events[i] = event(strconv.Itoa(a.ID), fmt.Sprintf("%d:%d", a.ID, a.Version+1))
		}
		if err := gormoutbox.Append(tx, events[:early]...); err != nil {
			return err
		}
		time.Sleep(pause)
		return gormoutbox.Append(tx, events[early:]...)
	})
}

// checkOrder expects the versions of each account from 1 on, each once, in order.
func checkOrder(t testing.TB, payloads []string, total int) {
	t.Helper()
	last := map[string]int{}
	inverted, duplicates := 0, 0
	seen := map[string]bool{}
	for _, p := range payloads {
		id, text, ok := strings.Cut(p, ":")
		require.True(t, ok)
		version, err := strconv.Atoi(text)
		require.NoError(t, err)
		if seen[p] {
			duplicates++
			continue
		}
		seen[p] = true
		if version != last[id]+1 {
			inverted++
		}
		last[id] = max(last[id], version)
	}
	assert.Zero(t, total-len(seen), "lost")
	assert.Zero(t, inverted, "inverted")
	assert.Zero(t, duplicates, "duplicates")
}
