package relay_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// untouched says that nothing was charged and nothing waits.
func untouched(t testing.TB, count func(query string) int) {
	t.Helper()
	assert.Zero(t, count("SELECT COUNT(*) FROM outbox_events WHERE attempts > 0 OR parked_at IS NOT NULL"))
	assert.Zero(t, count("SELECT COUNT(*) FROM outbox_held"))
}

func TestAnOutageChargesNothingAndEndsByItself(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const keys, each = 30, 4
		g := open(t, db)
		var away atomic.Bool
		var tries atomic.Int64
		away.Store(true)
		pub := newRecorder()
		pub.fail = func(string, *message.Message) error {
			if away.Load() {
				tries.Add(1)
				return errPoison
			}
			return nil
		}
		c := quick()
		c.Classify, c.MaxAttempts = nil, 10
		start(t, g, pub, c)
		for v := range each {
			var events []gormoutbox.Event
			for k := range keys {
				events = append(events, event(fmt.Sprint(k), fmt.Sprintf("%d:%d", k, v+1)))
			}
			add(t, g, events...)
		}
		eventually(t, "it probes again and again", func() bool { return tries.Load() >= 3*keys })
		untouched(t, func(q string) int { return countRows(t, g, q) })
		away.Store(false)
		pub.wait(t, keys*each)
		checkOrder(t, pub.payloads(), keys*each)
		// The pass in which the broker comes back may charge what failed in it: others were published since.
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE attempts > 1 OR parked_at IS NOT NULL"))
		eventually(t, "nothing waits", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_held") == 0 })
	})
}

func TestErrorsThatTheUserCallsAnOutage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.Classify = func(error) relay.Class { return relay.Outage }
		start(t, g, pub, c)
		add(t, g, series("bad", "bad", 2)...)
		for i := range 10 {
			add(t, g, event("good", fmt.Sprint("good", i)))
			pub.waitFor(t, fmt.Sprint("good", i))
		}
		untouched(t, func(q string) int { return countRows(t, g, q) })
		bad.cure()
		pub.waitFor(t, "bad1")
		assert.Equal(t, []string{"bad0", "bad1"}, pub.of("bad"))
	})
}

// TestAPoisonAlone can't be told from an outage, so it is not charged; but it must not stop later traffic.
func TestAPoisonAlone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		var tries atomic.Int64
		pub.fail = func(topic string, msg *message.Message) error {
			tries.Add(1)
			return bad.fail(topic, msg)
		}
		c := quick()
		c.Classify = nil
		start(t, g, pub, c)
		add(t, g, event("bad", "bad0"))
		eventually(t, "it is tried", func() bool { return tries.Load() >= 5 })
		untouched(t, func(q string) int { return countRows(t, g, q) })
		add(t, g, event("good", "good"))
		pub.waitFor(t, "good")
	})
}

// TestAPoisonThatFillsThePage: without others on it the relay would not see that there is no outage.
func TestAPoisonThatFillsThePage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.Classify, c.BatchSize = nil, 5
		add(t, g, series("bad", "bad", 50)...)
		// In the same partition, so that no other one helps.
		part := gormoutbox.Partition("a", "bad", gormoutbox.DefaultPartitions)
		neighbour := "n"
		for gormoutbox.Partition("a", neighbour, gormoutbox.DefaultPartitions) != part {
			neighbour += "n"
		}
		add(t, g, series(neighbour, "good", 20)...)
		start(t, g, pub, c)
		pub.waitFor(t, "good19")
		i := 0
		eventually(t, "the poison is charged beside others", func() bool {
			i++
			add(t, g, event(neighbour, fmt.Sprint("more", i)))
			return states(t, g)["bad0"].Attempts > 0
		})
		bad.cure()
		pub.waitFor(t, "bad49")
		got := pub.of("bad")
		for i := range 50 {
			assert.Equal(t, fmt.Sprint("bad", i), got[i])
		}
	})
}

func TestAPanicIsTheErrorOfItsMessage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		pub.fail = func(_ string, msg *message.Message) error {
			if string(msg.Payload) == "bad0" {
				panic("oh")
			}
			return nil
		}
		c := quick()
		c.MaxAttempts, c.Classify = 2, func(error) relay.Class { panic("oh, too") }
		start(t, g, pub, c)
		add(t, g, event("bad", "bad0"))
		i := 0
		eventually(t, "it is parked", func() bool {
			i++
			add(t, g, event("good", fmt.Sprint("good", i)))
			return states(t, g)["bad0"].Parked
		})
		assert.Equal(t, "relay: the publisher panicked: oh", *states(t, g)["bad0"].LastError)
	})
}

// TestARowThatIsNoMessage is parked at once, whatever Classify says.
func TestARowThatIsNoMessage(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		add(t, g, series("bad", "bad", 2)...)
		exec(t, g, "UPDATE outbox_events SET event_type = '' WHERE payload = ?", []byte("bad0"))
		pub := newRecorder()
		start(t, g, pub, relay.Config{Classify: func(error) relay.Class { return relay.Outage }, MinBackoff: time.Millisecond})
		eventually(t, "it is parked", func() bool { return states(t, g)["bad0"].Parked })
		assert.Contains(t, *states(t, g)["bad0"].LastError, "event_type")
		assert.Empty(t, pub.payloads())
	})
}
