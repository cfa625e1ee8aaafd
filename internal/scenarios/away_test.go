package scenarios_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/relay/relaytest"
)

// TestBrokerAway has a Kafka that goes away under load and comes back: the business must not notice, nothing may
// be charged or parked, and all that has become pending must go out, in order. A relay whose page is full of a few aggregates
// lets these wait, uncharged, to see whether others get through; how many did is printed, and none may be left.
func TestBrokerAway(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, fresh func() testenv.Database) {
		seed, out := seeded(t), &outage{}
		calm, away := pick(time.Second, 20*time.Second), pick(3*time.Second, time.Minute)
		k := newBroker(t)
		db := fresh()
		g := prepare(t, db)
		createAccounts(t, g)
		l := newLedger(out.cause)
		pub := k.publisher(t)

		var charges atomic.Int64
		r, err := relay.New(bare(t, db, 4), pub, relay.Config{Logger: quiet, OnError: func(err error) {
			if charge := (*relay.PublishError)(nil); errors.As(err, &charge) {
				charges.Add(1)
			}
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		leave := sync.OnceFunc(func() {
			cancel()
			assert.NoError(t, <-ended)
		})
		t.Cleanup(leave)
		shop := startBusiness(t, db, seed, 40*time.Millisecond, l, k.topic)
		end := sync.OnceFunc(shop.end)
		defer end()

		assert.Zero(t, watch(t, g, calm), "held although the broker is there")
		pub.wait(t, l.until(time.Now()))

		shop.enter(duringOutage)
		out.begin()
		k.away(t)
		aside := watch(t, g, away)
		assert.Eventually(t, func() bool { return r.Health().Outage }, patience, time.Millisecond, "the relay does not notice")
		pending := count(t, g, unpublished)
		k.back(t)
		back := time.Now()

		shop.enter(afterOutage)
		saved := l.until(back)
		pub.wait(t, saved)
		_, last := pub.last(saved)
		aside = max(aside, watch(t, g, calm))
		end()
		settled(t, g)
		out.end()
		leave()

		untouched(t, g)
		assert.Zero(t, count(t, g, held))
		assert.Zero(t, charges.Load(), "attempts that were charged")
		k.consume(t, l)
		l.check(t)
		during, before, after := median(shop.of(duringOutage)), median(shop.of(beforeOutage)), median(shop.of(afterOutage))
		t.Logf("%d events were pending when the broker came back after %s; the last one was delivered after %s; at most %d aggregates were set aside", pending,
			back.Sub(out.from).Round(time.Millisecond), last.Sub(back).Round(time.Millisecond), aside)
		t.Logf("median of business transactions: before %s (%d), during the outage %s (%d), after it %s (%d); during : before = %.2f",
			before, len(shop.of(beforeOutage)), during, len(shop.of(duringOutage)), after, len(shop.of(afterOutage)), float64(during)/float64(before))
	})
}

// watch looks at the tables again and again for some time, and says how many aggregates were held at most.
func watch(t *testing.T, g *gorm.DB, d time.Duration) (most int) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !untouched(t, g) {
			break
		}
		most = max(most, count(t, g, held))
		<-ticker.C
	}
	return most
}

// untouched says that nothing was charged and nothing is parked.
func untouched(t *testing.T, g *gorm.DB) bool {
	t.Helper()
	return assert.Zero(t, count(t, g, charged), "charged or parked") && assert.Zero(t, count(t, g, held+" WHERE until IS NULL"), "parked")
}

// outage is when the broker was away, which explains what came twice: it may have had what it did not confirm.
type outage struct {
	mu       sync.Mutex
	from, to time.Time
}

func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from = time.Now().Truncate(time.Millisecond) // as records have it
}

// end says that all that was pending is settled.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = time.Now()
}

func (o *outage) cause(d relaytest.Duplicate) relaytest.Cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	return relaytest.ByWindows(relaytest.Window{Name: "outage", Cause: relaytest.Crash, From: o.from, To: o.to})(d)
}
