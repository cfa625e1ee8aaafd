package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// TestManyBehindAHeldHead goes on over thousands of numbers without a pause, though few of them are pending, and without listing them.
func TestManyBehindAHeldHead(t *testing.T) {
	t.Parallel()
	database, trips := testenv.MariaDBInterpolate(t).Via(t)
	g, r := migrated(t, database, Config{BatchSize: 5})
	c := &collector{}
	r.sender = &batches{publisher: c, timeout: time.Hour, valid: r.leases.valid}
	const total, none, every = 25_000, 12_000, 500
	var want []string
	for from := 0; from < total; from += 1000 {
		events := make([]gormoutbox.Event, 1000)
		for i := range events {
			n := from + i
			events[i] = gormoutbox.Event{AggregateType: "a", AggregateID: "held", Type: "e", Payload: fmt.Sprint(n)}
			if n > none && n%every == every-1 { // the first survey ends before that
				events[i].AggregateID = fmt.Sprint("other", n%7)
				want = append(want, fmt.Sprint(n))
			}
		}
		require.NoError(t, gormoutbox.Append(g, events...))
	}
	require.NoError(t, g.Exec("INSERT INTO outbox_held (aggregate_type, aggregate_id, part, seq, reason) SELECT aggregate_type, aggregate_id, part, seq, '' FROM outbox_events WHERE seq = (SELECT MIN(seq) FROM outbox_events)").Error)
	require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
	never := time.Now().Add(1000 * time.Hour)
	st := &loopState{nextDue: never, nextHeld: never, nextSweep: never}
	r.leases.nextBalance = never

	trips.Reset()
	for {
		if res := r.mustPass(t, st); res.found == 0 && !res.more {
			break
		}
	}
	n := trips.Count()
	assert.Equal(t, want, c.payloads)
	for _, l := range r.leases.current() {
		assert.EqualValues(t, total, r.reader.low(l), "partition %d", l.part)
	}
	// 6 pages of 5 trips, and the surveys; one more for each quarter of a second.
	assert.Less(t, n, 60, "round trips")
}
