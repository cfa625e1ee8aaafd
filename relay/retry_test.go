package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// quick is a config that retries soon and shares out soon.
func quick() relay.Config {
	return relay.Config{
		MinBackoff: 10 * time.Millisecond, MaxBackoff: 20 * time.Millisecond, Classify: charge, MaxAttempts: 1000,
		Lease: 1500 * time.Millisecond, SettleWindow: 50 * time.Millisecond,
	}
}

func TestRetryKeepsTheOrderOfTheKeyAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		stop := start(t, g, pub, quick())
		add(t, g, series("bad", "bad", 3)...)
		eventually(t, "attempts are on the row", func() bool { return states(t, g)["bad0"].Attempts >= 3 })
		add(t, g, series("good", "good", 3)...)
		pub.waitFor(t, "good2")
		assert.Empty(t, pub.of("bad"))
		s := states(t, g)["bad0"]
		require.NotNil(t, s.LastError)
		assert.Equal(t, errPoison.Error(), *s.LastError)
		assert.Zero(t, states(t, g)["bad1"].Attempts, "only the head is charged")
		assert.Equal(t, 1, countRows(t, g, "SELECT COUNT(*) FROM outbox_held WHERE aggregate_id = 'bad' AND until IS NOT NULL AND reason LIKE 'retry: %'"))

		bad.cure()
		pub.waitFor(t, "bad2")
		stop()
		assert.Equal(t, []string{"bad0", "bad1", "bad2"}, pub.of("bad"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_held"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"))
		assert.GreaterOrEqual(t, states(t, g)["bad0"].Attempts, 3, "they stay")
	})
}

func TestAnUnknownErrorIsChargedBesideTrafficOfOthers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		pub.fail = newPoison("bad0").fail
		c := quick()
		c.Classify, c.MaxAttempts = nil, 3
		start(t, g, pub, c)
		add(t, g, event("bad", "bad0"))
		for i := 0; !states(t, g)["bad0"].Parked; i++ {
			require.Less(t, i, 1000)
			add(t, g, event("good", fmt.Sprint("good", i)))
			pub.waitFor(t, fmt.Sprint("good", i))
		}
		assert.Equal(t, 3, states(t, g)["bad0"].Attempts)
	})
}

func TestParking(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy relay.ParkPolicy
		class  relay.Class
		// attempts at least, and exactly if parked.
		attempts int
		parked   bool
		// goesOn says that the event behind is published meanwhile.
		goesOn bool
	}{
		"key":             {policy: relay.ParkKey, class: relay.Retryable, attempts: 3, parked: true},
		"event":           {policy: relay.ParkEvent, class: relay.Retryable, attempts: 3, parked: true, goesOn: true},
		"block":           {policy: relay.Block, class: relay.Retryable, attempts: 5},
		"key at once":     {policy: relay.ParkKey, class: relay.Permanent, attempts: 1, parked: true},
		"event at once":   {policy: relay.ParkEvent, class: relay.Permanent, attempts: 1, parked: true, goesOn: true},
		"block permanent": {policy: relay.Block, class: relay.Permanent, attempts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, db testenv.Database) {
				g := open(t, db)
				bad, pub := newPoison("bad0"), newRecorder()
				pub.fail = bad.fail
				c := quick()
				c.MaxAttempts, c.Park = 3, test.policy
				c.Classify = func(error) relay.Class { return test.class }
				start(t, g, pub, c)
				add(t, g, series("bad", "bad", 2)...)
				add(t, g, event("good", "good"))
				pub.waitFor(t, "good")
				eventually(t, "attempts are used up", func() bool {
					s := states(t, g)["bad0"]
					return s.Attempts >= test.attempts && s.Parked == test.parked
				})
				if test.goesOn {
					pub.waitFor(t, "bad1")
					assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_held"), "nothing waits")
					return
				}
				add(t, g, event("good", "again"))
				pub.waitFor(t, "again")
				assert.Empty(t, pub.of("bad"))
				if test.parked {
					assert.Equal(t, test.attempts, states(t, g)["bad0"].Attempts)
					assert.Equal(t, 1, countRows(t, g, "SELECT COUNT(*) FROM outbox_held WHERE until IS NULL AND reason LIKE 'parked: %'"))
				}
				bad.cure()
				exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
				pub.waitFor(t, "bad1")
				assert.Equal(t, []string{"bad0", "bad1"}, pub.of("bad"))
				eventually(t, "the hold is gone", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_held") == 0 })
				assert.False(t, states(t, g)["bad0"].Parked)
			})
		})
	}
}

// TestRedriveOfAKeyWithManyEventsBehind also shows that the low mark passes over the
// events behind a held head, and falls back when it is released.
func TestRedriveOfAKeyWithManyEventsBehind(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const behind = 2000
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts, c.BatchSize = 1, 200
		start(t, g, pub, c)
		add(t, g, series("bad", "bad", behind)...)
		eventually(t, "the key is parked", func() bool { return states(t, g)["bad0"].Parked })
		passes(t, g, pub, "bad", seqOf(t, g, fmt.Sprint("bad", behind-1)))
		bad.cure()
		exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
		add(t, g, event("bad", fmt.Sprint("bad", behind)))
		pub.waitFor(t, fmt.Sprint("bad", behind))
		got := pub.of("bad")
		require.Len(t, got, behind+1)
		for i, p := range got {
			require.Equal(t, fmt.Sprint("bad", i), p)
		}
	})
}

func TestMarkingTheHeadProcessedSkipsIt(t *testing.T) {
	t.Parallel()
	for name, skip := range map[string]string{
		"marked":  "UPDATE outbox_events SET processed_at = created_at WHERE payload = ?",
		"deleted": "DELETE FROM outbox_events WHERE payload = ?",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, db testenv.Database) {
				g := open(t, db)
				bad, pub := newPoison("bad0"), newRecorder()
				pub.fail = bad.fail
				c := quick()
				c.MaxAttempts = 1
				start(t, g, pub, c)
				add(t, g, series("bad", "bad", 3)...)
				eventually(t, "the key is parked", func() bool { return states(t, g)["bad0"].Parked })
				bad.cure()
				exec(t, g, skip, []byte("bad0"))
				pub.waitFor(t, "bad2")
				assert.Equal(t, []string{"bad1", "bad2"}, pub.of("bad"))
			})
		})
	}
}

// TestASkippedHeadIsNotPublishedWhenItIsDue: it is found by its hold, which is still there.
func TestASkippedHeadIsNotPublishedWhenItIsDue(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 1
		start(t, g, pub, c)
		add(t, g, series("bad", "bad", 2)...)
		eventually(t, "the key is parked", func() bool { return states(t, g)["bad0"].Parked })
		bad.cure()
		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			exec(t, tx, "UPDATE outbox_held SET request = 'redrive'")
			exec(t, tx, "UPDATE outbox_events SET processed_at = created_at WHERE payload = ?", []byte("bad0"))
			return nil
		}))
		pub.waitFor(t, "bad1")
		assert.Equal(t, []string{"bad1"}, pub.of("bad"))
	})
}

func TestEventsWithoutAnAggregateWaitAndParkAlone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("bad", "once"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 4
		start(t, g, pub, c)
		alone := func(payload string) { e := event("", payload); e.AggregateType = ""; add(t, g, e) }
		alone("bad")
		alone("good")
		eventually(t, "it is parked", func() bool { s := states(t, g)["bad"]; return s.Parked && s.Attempts == 4 })
		pub.waitFor(t, "good")
		bad.cure()
		alone("once")
		pub.waitFor(t, "once")
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_held"))
		assert.Empty(t, pub.of("bad"))
	})
}
