package relay_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestNoConnectionIsHeldDuringAPublish: the pool has one, and the publisher needs it.
func TestNoConnectionIsHeldDuringAPublish(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		add(t, g, series("k", "k", 3)...)
		add(t, g, series("bad", "bad", 2)...)
		add(t, g, series("l", "l", 3)...)
		own := db.Open(t)
		pool, err := own.DB()
		require.NoError(t, err)
		pool.SetMaxOpenConns(1)
		bad, pub := newPoison("bad0"), newRecorder()
		var queries atomic.Int64
		pub.fail = func(topic string, msg *message.Message) error {
			var one int
			if err := own.WithContext(msg.Context()).Raw("SELECT 1 FROM outbox_partitions WHERE part = 0").Scan(&one).Error; err != nil {
				return err
			}
			queries.Add(int64(one))
			return bad.fail(topic, msg)
		}
		start(t, own, pub, quick())
		pub.wait(t, 6)
		eventually(t, "failures are recorded", func() bool { return states(t, g)["bad0"].Attempts > 1 })
		bad.cure()
		pub.wait(t, 8)
		assert.GreaterOrEqual(t, queries.Load(), int64(9))
	})
}

// TestConnectionsThatAreKilled at any moment of the relay's work.
func TestConnectionsThatAreKilled(t *testing.T) {
	t.Parallel()
	eachConcurrent(t, func(t *testing.T, db testenv.Database) {
		const keys, versions, kills = 20, 30, 15
		g := open(t, db)
		pool, err := g.DB()
		require.NoError(t, err)
		pool.SetMaxOpenConns(1) // the one that is spared
		theirs := db
		kill := "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
		if db.Name == "postgres" {
			theirs.DSN += "&application_name=killed_" + t.Name()[len(t.Name())-8:]
			kill = "SELECT pid FROM pg_stat_activity WHERE application_name = 'killed_" + t.Name()[len(t.Name())-8:] + "' AND query LIKE '%outbox%'"
		}
		pub := newRecorder()
		stop := start(t, theirs.Open(t), pub, quick())
		var killed int
		for v := 1; v <= versions; v++ {
			var events []gormoutbox.Event
			for k := range keys {
				events = append(events, event(fmt.Sprint(k), fmt.Sprintf("%d:%d", k, v)))
			}
			add(t, g, events...)
			if v%2 == 0 {
				killed += killAll(t, g, kill)
			}
		}
		for killed < kills {
			killed += killAll(t, g, kill)
		}
		eventually(t, "everything is settled", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
		})
		stop()
		checkFirstDeliveries(t, pub.payloads(), keys*versions)
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE attempts > 0"), "a dead connection is nobody's poison")
	})
}

func killAll(t testing.TB, g *gorm.DB, list string) int {
	t.Helper()
	var ids []int64
	require.NoError(t, g.Raw(list).Scan(&ids).Error)
	for _, id := range ids {
		statement := fmt.Sprintf("KILL %d", id)
		if g.Name() == "postgres" {
			statement = fmt.Sprintf("SELECT pg_terminate_backend(%d)", id)
		}
		_ = g.Exec(statement).Error // it may have gone meanwhile
	}
	return len(ids)
}

// checkFirstDeliveries is checkOrder that allows repetitions.
func checkFirstDeliveries(t testing.TB, payloads []string, total int) {
	t.Helper()
	seen := map[string]bool{}
	var first []string
	for _, p := range payloads {
		if !seen[p] {
			seen[p] = true
			first = append(first, p)
		}
	}
	checkOrder(t, first, total)
}

// TestTheMySQLPath is a smoke test of GORM without RETURNING.
func TestTheMySQLPath(t *testing.T) {
	t.Parallel()
	db := testenv.MySQLPath(t)
	g := open(t, db)
	bad, pub := newPoison("k0"), newRecorder()
	pub.fail = bad.fail
	start(t, g, pub, quick())
	add(t, g, series("k", "k", 10)...)
	eventually(t, "it is charged", func() bool { return states(t, g)["k0"].Attempts > 1 })
	bad.cure()
	pub.waitFor(t, "k9")
	assert.Len(t, pub.of("k"), 10)
}
