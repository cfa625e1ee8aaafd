package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// drain runs a relay until nothing is pending.
func drain(t testing.TB, g *gorm.DB, pub *recorder, config relay.Config) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet
	}
	r, err := relay.New(g, pub, config)
	require.NoError(t, err)
	require.NoError(t, r.Drain(t.Context()))
}

// inOrder expects the versions 0 to n-1 of every aggregate, each once and in order.
func inOrder(t testing.TB, pub *recorder, aggregates, n int) {
	t.Helper()
	for a := range aggregates {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf("k%d-%d", a, i))
		}
		assert.Equal(t, want, pub.of(fmt.Sprintf("k%d-", a)))
	}
	assert.Equal(t, aggregates*n, pub.count())
}

// TestRepartitionBetweenRelays is the documented procedure, up and down: events go on in the order of their aggregates, kept ones
// can be replayed and are removed by retention.
func TestRepartitionBetweenRelays(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		const aggregates, each = 40, 5
		version, kept := 0, 0
		pub := newRecorder()
		write := func() {
			for range each {
				for a := range aggregates {
					add(t, g, event(fmt.Sprint("k", a), fmt.Sprintf("k%d-%d", a, version)))
				}
				version++
			}
		}
		for _, count := range []int{128, 16} {
			write()
			drain(t, g, pub, quick())
			require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", count))
			kept = countRows(t, g, "SELECT MAX(seq) FROM outbox_events")
			// A relay that runs while events come, and another one beside it.
			stops := []func(){start(t, g, pub, quick()), start(t, db.Open(t), pub, quick())}
			write()
			pub.wait(t, version*aggregates)
			eventually(t, "all is settled", func() bool {
				return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
			})
			for _, stop := range stops {
				stop()
			}
		}
		inOrder(t, pub, aggregates, version)

		o, err := relay.NewOperator(g, "")
		require.NoError(t, err)
		status, err := o.Status(t.Context())
		require.NoError(t, err)
		assert.Len(t, status.Partitions, 16)
		assert.Zero(t, status.Backlog)

		// An event from before both changes is where one looks for it.
		n, err := o.Replay(t.Context(), relay.ReplayFilter{AggregateType: "a", AggregateID: "k7"})
		require.NoError(t, err)
		assert.EqualValues(t, version, n)
		drain(t, g, pub, quick())
		assert.Equal(t, (aggregates+1)*version, pub.count())

		// And retention takes them: it goes up to the saved marks, which are at least where they were after the last change.
		exec(t, g, "UPDATE outbox_events SET processed_at = '2001-01-01 00:00:00.000'")
		c := quick()
		c.Retention = time.Hour
		r, err := relay.New(g, pub, c)
		require.NoError(t, err)
		relay.RetainOften(r)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		eventually(t, "old events are gone", func() bool {
			return countRows(t, g, fmt.Sprint("SELECT COUNT(*) FROM outbox_events WHERE seq <= ", kept)) == 0
		})
		stop()
		require.NoError(t, <-done)
	})
}

// TestRepartitionIsRefusedBesideARelay: one that runs, and one that crashed until its lease has run out.
func TestRepartitionIsRefusedBesideARelay(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		c := quick()
		c.Lease = time.Minute
		stop := start(t, g, pub, c)
		add(t, g, event("k", "1"))
		pub.wait(t, 1)
		eventually(t, "it is settled", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
		})
		eventually(t, "the relay has given a sign of life", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_relays") == 1 })
		var e *gormoutbox.RepartitionError
		require.ErrorAs(t, gormoutbox.Repartition(t.Context(), g, "", 8), &e)
		assert.Len(t, e.Relays, 1)
		assert.EqualValues(t, 64, e.Leases)
		stop()
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 8))
	})
}

// TestRelayBetweenTheHalvesOfARepartition: kept events are not moved yet. The relay does no harm, says so, and publishes what comes.
func TestRelayBetweenTheHalvesOfARepartition(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		add(t, g, series("k", "old", 50)...)
		drain(t, g, pub, quick())
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 8))
		exec(t, g, "UPDATE outbox_events SET part = 3") // as the first half leaves it
		told := newTold()
		c := quick()
		c.OnError = told.add
		stop := start(t, g, pub, c)
		add(t, g, series("k", "new", 50)...)
		pub.waitFor(t, "new49")
		eventually(t, "it is told", func() bool { return told.stray() != nil })
		assert.Equal(t, relay.StrayError{Table: "outbox_events", Kept: true, Partitions: 8}, *told.stray())
		assert.ErrorContains(t, told.stray(), "call gormoutbox.Repartition with the present count, 8")
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 8), "also beside the relay")
		stop()
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE part < 64"))
		assert.Len(t, pub.of("old"), 50, "none again")
		assert.True(t, slices.IsSortedFunc(pub.of("new"), func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }))
		assert.Len(t, pub.of("new"), 50)
	})
}

// TestEventsInNoPartitionAreTold: what came past everything is noticed, and moved and published when asked for.
func TestEventsInNoPartitionAreTold(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		for _, part := range []int{-1, 64} {
			g := open(t, db)
			pub, told := newRecorder(), newTold()
			add(t, g, series("k", fmt.Sprint("p", part, "-"), 2)...)
			exec(t, g, "UPDATE outbox_events SET part = ? WHERE processed_at IS NULL", part)
			c := quick()
			c.OnError = told.add
			stop := start(t, g, pub, c)
			eventually(t, "it is told", func() bool { return told.stray() != nil })
			stop()
			assert.Equal(t, relay.StrayError{Table: "outbox_events", Pending: 2, Partitions: 64}, *told.stray())
			assert.ErrorContains(t, told.stray(), "2 events wait in partitions of outbox_events that do not exist")
			assert.Zero(t, pub.count())
			require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 64))
			drain(t, g, pub, quick())
			assert.Equal(t, []string{fmt.Sprint("p", part, "-0"), fmt.Sprint("p", part, "-1")}, pub.payloads())
		}
	})
}

// told keeps what Config.OnError got.
type told struct {
	mu   sync.Mutex
	errs []error
}

func newTold() *told { return &told{} }

func (o *told) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

// stray is the first *relay.StrayError, nil if there is none.
func (o *told) stray() *relay.StrayError {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.errs {
		var e *relay.StrayError
		if errors.As(err, &e) {
			return e
		}
	}
	return nil
}
