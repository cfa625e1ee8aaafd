package relay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func delayed(aggregate, payload string, d time.Duration) gormoutbox.Event {
	e := event(aggregate, payload)
	e.AvailableAt = time.Now().Add(d)
	return e
}

// makeDue lets a delayed event's time come.
func makeDue(t testing.TB, g *gorm.DB, payload string) {
	t.Helper()
	exec(t, g, "UPDATE outbox_events SET available_at = created_at WHERE payload = ?", []byte(payload))
}

func TestADelayedEventHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		start(t, g, pub, quick())
		add(t, g, event("k", "k0"), delayed("k", "later", time.Hour), event("k", "k1"))
		pub.waitFor(t, "k1")
		passes(t, g, pub, "k", seqOf(t, g, "k1"))
		assert.NotContains(t, pub.payloads(), "later")
		makeDue(t, g, "later")
		pub.waitFor(t, "later")
		eventually(t, "it is settled", func() bool { return states(t, g)["later"].Processed })
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE available_at IS NOT NULL"), "it leaves the index")
	})
}

func TestADelayedEventComesByItselfAndNotBefore(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		start(t, g, pub, quick())
		e := delayed("k", "later", 700*time.Millisecond)
		add(t, g, e)
		pub.waitFor(t, "later")
		// Server and test are on one machine; SQLite's clock has milliseconds.
		assert.False(t, time.Now().Before(e.AvailableAt.Truncate(time.Millisecond)))
	})
}

func TestADueEventTakesItsPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		events := series("k", "k", 12)
		events[6].AvailableAt = time.Now().Add(time.Hour)
		add(t, g, events...)
		makeDue(t, g, "k6")
		pub := newRecorder()
		c := quick()
		c.BatchSize = 2 // the place is pages away
		start(t, g, pub, c)
		pub.wait(t, 12)
		got := pub.payloads()
		assert.Equal(t, []string{"k0", "k1", "k2", "k3", "k4", "k5"}, got[:6], "nothing of what stands before comes after it")
		assert.Contains(t, got, "k6")
	})
}

// TestADelayedEventThatFails becomes its key's head; what stands before it must not be lost behind the hold.
func TestADelayedEventThatFails(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("later"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 2
		start(t, g, pub, c)
		add(t, g, event("k", "k0"), delayed("k", "later", time.Hour))
		pub.waitFor(t, "k0")
		makeDue(t, g, "later")
		eventually(t, "it is parked", func() bool { return states(t, g)["later"].Parked })
		add(t, g, event("k", "k1"))
		passes(t, g, pub, "k", seqOf(t, g, "k1"))
		assert.NotContains(t, pub.payloads(), "k1", "it waits for the head")
		bad.cure()
		exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
		pub.waitFor(t, "k1")
		assert.Equal(t, []string{"k0", "later", "k1"}, slices.DeleteFunc(pub.payloads(), func(p string) bool { return p != "k0" && p != "k1" && p != "later" }))
	})
}

// TestADelayedEventWithinAHeldKey: before the head it goes, behind the head it waits.
func TestADelayedEventWithinAHeldKey(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		bad, pub := newPoison("head"), newRecorder()
		pub.fail = bad.fail
		c := quick()
		c.MaxAttempts = 1
		add(t, g, delayed("k", "before", time.Hour), event("k", "head"), delayed("k", "behind", time.Hour), event("k", "last"))
		start(t, g, pub, c)
		eventually(t, "the key is parked", func() bool { return states(t, g)["head"].Parked })
		makeDue(t, g, "behind")
		makeDue(t, g, "before")
		pub.waitFor(t, "before")
		add(t, g, event("other", "other"))
		pub.waitFor(t, "other")
		assert.Equal(t, []string{"before", "other"}, pub.payloads())
		bad.cure()
		exec(t, g, "UPDATE outbox_held SET request = 'redrive'")
		pub.wait(t, 5)
	})
}
