package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// shares counts the partitions of each living owner.
func shares(t testing.TB, g *gorm.DB) map[string]int {
	t.Helper()
	var rows []struct {
		Owner string
		N     int
	}
	assert.NoError(t, g.Raw("SELECT owner, COUNT(*) AS n FROM outbox_partitions WHERE owner <> '' GROUP BY owner").Scan(&rows).Error)
	out := map[string]int{}
	for _, r := range rows {
		out[r.Owner] = r.N
	}
	return out
}

// evenly says whether n relays own everything, none more than its share.
func evenly(t testing.TB, g *gorm.DB, n int) func() bool {
	t.Helper()
	return func() bool {
		total := 0
		got := shares(t, g)
		for _, k := range got {
			total += k
			if k > (64+n-1)/n {
				return false
			}
		}
		return total == 64 && len(got) == n
	}
}

func TestRelaysShareEvenlyWithinTwoLeaseTimes(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const lease = 3 * time.Second
		g := open(t, db)
		pub := newRecorder()
		var stops []func()
		begin := time.Now()
		for i := range 3 {
			stops = append(stops, start(t, db.Open(t), pub, relay.Config{ID: fmt.Sprint("relay", i), Lease: lease}))
		}
		eventually(t, "all share", evenly(t, g, 3))
		assert.Less(t, time.Since(begin), 2*lease)
		add(t, g, event("k", "x"))
		pub.waitFor(t, "x")

		begin = time.Now()
		stops[1]()
		assert.NotContains(t, shares(t, g), "relay1")
		eventually(t, "two share", evenly(t, g, 2))
		assert.Less(t, time.Since(begin), 2*lease)
		add(t, g, series("k", "y", 10)...)
		pub.waitFor(t, "y9")
		assert.Len(t, pub.payloads(), 11, "each once")
	})
}

// TestARelayTakesOverFromACrashedOne at the saved low mark: rows below are dealt with.
func TestARelayTakesOverFromACrashedOne(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		add(t, g, series("k", "x", 10)...)
		// The crashed one had dealt with half of them, had saved its mark and did not sign off.
		exec(t, g, "UPDATE outbox_events SET processed_at = created_at WHERE seq <= ?", seqOf(t, g, "x4"))
		exec(t, g, "UPDATE outbox_partitions SET owner = 'crashed', token = 'its token', expires_at = (SELECT MAX(created_at) FROM outbox_events), low = ?", seqOf(t, g, "x4"))
		pub := newRecorder()
		stop := start(t, g, pub, relay.Config{})
		pub.waitFor(t, "x9")
		stop()
		assert.Equal(t, []string{"x5", "x6", "x7", "x8", "x9"}, pub.payloads())
	})
}

func TestARelayWaitsForALeaseThatIsAlive(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const lease = time.Second
		g := open(t, db)
		first, second := newRecorder(), newRecorder()
		hung := make(chan struct{})
		first.fail = func(string, *message.Message) error { <-hung; return nil }
		start(t, db.Open(t), first, relay.Config{ID: "first", Lease: lease})
		eventually(t, "the first has them", func() bool { return shares(t, g)["first"] == 64 })
		add(t, g, event("k", "x"))
		start(t, db.Open(t), second, relay.Config{ID: "second", Lease: lease})
		eventually(t, "the second signed on", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_relays") == 2 })
		assert.Never(t, func() bool { return shares(t, g)["first"] != 64 }, 3*lease, 20*time.Millisecond, "the heartbeat keeps the leases while a publish hangs")
		assert.Empty(t, second.payloads())
		close(hung)
		first.waitFor(t, "x")
		eventually(t, "both share", evenly(t, g, 2))
	})
}
