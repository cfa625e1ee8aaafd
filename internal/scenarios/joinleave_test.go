package scenarios_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// TestRelaysJoinAndLeave has relays that come and go in an orderly way while writers commit
// out of order: nothing may be lost, overtaken or published twice.
func TestRelaysJoinAndLeave(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, fresh func() testenv.Database) {
		seed, begin := seeded(t), time.Now()
		events, interval := pick(5_000, 100_000), pick(200*time.Millisecond, time.Second)
		db := fresh()
		g := prepare(t, db)
		createAccounts(t, g)
		l := newLedger(nil)
		out := newSink(l)

		// A duplicate would need a pause of two thirds of the lease, in which it is not renewed.
		relays := &slots{random: randomOf(seed, writers), config: relay.Config{Lease: 10 * time.Second}}
		for n := range 8 {
			one := &slot{db: bare(t, db, 4), publisher: &oneByOne{sink: out, most: 2 * time.Millisecond}}
			if n%2 == 0 {
				one.publisher = &inBatches{oneByOne{sink: out, most: 6 * time.Millisecond}}
			}
			relays.all = append(relays.all, one)
		}
		t.Cleanup(func() { relays.stop(t) })
		for n := range relays.all {
			relays.join(t, n)
		}

		var wg sync.WaitGroup
		for n := range writers {
			w := &writer{db: open(t, db, 2), random: randomOf(seed, n), ledger: l, late: true}
			wg.Go(func() {
				for left := events / writers; left > 0 && !t.Failed(); {
					left -= w.write(t, min(left, 9))
				}
			})
		}
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			wg.Wait()
			out.wait(t, l.total())
			settled(t, g)
		}()
		relays.run(t, interval, done)
		relays.stop(t)

		assert.Equal(t, events, l.total())
		l.check(t)
		assert.Zero(t, count(t, g, charged))
		assert.Zero(t, count(t, g, held))
		assert.Zero(t, count(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "partitions that were not given back")
		t.Logf("relays joined %d times and left %d times, at most %d at once; %s", relays.joined, relays.leave, relays.most, time.Since(begin).Round(time.Millisecond))
	})
}
