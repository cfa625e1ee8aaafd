package relay

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// collector takes every batch and keeps the payloads.
type collector struct{ payloads []string }

func (*collector) Publish(string, ...*message.Message) error { return nil }
func (*collector) Close() error                              { return nil }
func (c *collector) PublishBatch(_ context.Context, batch []watermilladapter.Outgoing) []error {
	for _, out := range batch {
		c.payloads = append(c.payloads, string(out.Message.Payload))
	}
	return make([]error, len(batch))
}

// sparseBacklog writes events of an aggregate whose first one is held, and among them some others, whose payloads it returns.
type sparseBacklog struct {
	g    *gorm.DB
	want []string
	n    int
}

func (b *sparseBacklog) add(t *testing.T, n int, isOther func(n int) bool) {
	t.Helper()
	var events []gormoutbox.Event
	for i := range n {
		e := gormoutbox.Event{AggregateType: "a", AggregateID: "held", Type: "e", Payload: fmt.Sprint(b.n)}
		if isOther(b.n) {
			e.AggregateID = fmt.Sprint("other", b.n%7)
			b.want = append(b.want, fmt.Sprint(b.n))
		}
		events = append(events, e)
		b.n++
		if len(events) == 1000 || i == n-1 {
			require.NoError(t, gormoutbox.Append(b.g, events...))
			events = events[:0]
		}
	}
}

func (b *sparseBacklog) hold(t *testing.T) {
	t.Helper()
	require.NoError(t, b.g.Exec("INSERT INTO outbox_held (aggregate_type, aggregate_id, part, seq, reason) SELECT aggregate_type, aggregate_id, part, seq, '' FROM outbox_events WHERE seq = "+
		"(SELECT MIN(seq) FROM outbox_events)").Error)
}

// publish makes passes until there is nothing more and returns how many round trips that took.
func (b *sparseBacklog) publish(t *testing.T, r *Relay, trips *testenv.RoundTrips) int {
	t.Helper()
	c := &collector{}
	r.sender = &batches{publisher: c, timeout: time.Hour, valid: r.leases.valid}
	require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
	never := time.Now().Add(1000 * time.Hour)
	st := &loopState{nextDue: never, nextHeld: never, nextSweep: never}
	r.leases.nextBalance = never
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	trips.Reset()
	for {
		res, err := r.pass(ctx, ctx, st)
		require.NoError(t, err)
		if res.found == 0 && !res.more {
			break
		}
	}
	n := trips.Count()
	assert.ElementsMatch(t, b.want, c.payloads)
	last := map[int]int{}
	for _, p := range c.payloads {
		i, err := strconv.Atoi(p)
		require.NoError(t, err)
		assert.Less(t, last[i%7], i, "out of order in its aggregate")
		last[i%7] = i
	}
	return n
}

// TestManyBehindAHeldHead goes on over thousands of numbers without a pause, though few of them are pending, and without listing them.
func TestManyBehindAHeldHead(t *testing.T) {
	t.Parallel()
	database, trips := testenv.MariaDBInterpolate(t).Via(t)
	g, r := migrated(t, database, Config{BatchSize: 5})
	b := &sparseBacklog{g: g}
	b.add(t, 25_000, func(n int) bool { return n > 12_000 && n%500 == 499 }) // the first survey ends before that
	b.hold(t)
	// 6 pages of 5 trips, and the surveys; one more for each quarter of a second.
	assert.Less(t, b.publish(t, r, trips), 60, "round trips")
	for _, l := range r.leases.current() {
		assert.EqualValues(t, b.n, r.reader.low(l), "partition %d", l.part)
	}
}

// TestNumbersThatJump, as after a change of the counter or where retention has removed what stood behind a held head, are not gone through one by one.
func TestNumbersThatJump(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		make func(testing.TB) testenv.Database
		jump string
		to   []int64
	}{
		{testenv.Postgres, "SELECT setval(pg_get_serial_sequence('outbox_events', 'seq'), %d)", []int64{1_000_000_000_000, 6_000_000_000_000_000_000}},
		{testenv.MariaDBInterpolate, "ALTER TABLE outbox_events AUTO_INCREMENT = %d", []int64{1_000_000_000_000, 6_000_000_000_000_000_000}},
	} {
		for _, to := range test.to {
			base := test.make(t)
			t.Run(fmt.Sprint(base.Name, to), func(t *testing.T) {
				t.Parallel()
				database, trips := base.Via(t)
				g, r := migrated(t, database, Config{BatchSize: 10})
				b := &sparseBacklog{g: g}
				b.add(t, 600, func(n int) bool { return n%20 == 19 })
				b.hold(t)
				require.NoError(t, g.Exec(fmt.Sprintf(test.jump, to)).Error)
				b.add(t, 600, func(n int) bool { return n%20 == 19 })
				assert.Less(t, b.publish(t, r, trips), 120, "round trips")
			})
		}
	}
}

// TestAWindowEndsInNoGap of numbers of which rows may appear all at once: those of one INSERT would be torn apart, and its second half published first.
func TestAWindowEndsInNoGap(t *testing.T) {
	t.Parallel()
	g, r := migrated(t, testenv.MariaDB(t), Config{BatchSize: 5})
	b := &sparseBacklog{g: g}
	b.add(t, 400, func(n int) bool { return n == 10 || n == 390 })
	b.hold(t)
	require.NoError(t, g.Exec("DELETE FROM outbox_events WHERE seq BETWEEN 80 AND 140").Error)
	require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
	reader, leases := r.reader.(*mysqlReader), r.leases.current()
	reader.keep(leases)
	s, err := reader.survey(t.Context(), leases, 0)
	require.NoError(t, err)
	reader.gaps.update(s, time.Now())
	w := &walk{leases: signature(leases), high: s.belowInFlight(), pages: walkPages}
	require.EqualValues(t, 400, w.high)
	p, err := reader.next(t.Context(), leases, page{walk: w, nth: -1, rest: []place{{seq: 0}}, width: 100}, 5)
	require.NoError(t, err)
	require.Len(t, p.items, 1)
	assert.Equal(t, []place{{seq: 140}}, p.rest)
	for _, l := range leases {
		assert.EqualValues(t, 140, p.covered[l.part])
	}
}
