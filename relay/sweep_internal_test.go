package relay

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestTheSweepFindsWhatStandsBelowTheLowMark makes an event pending again behind the mark, which is what
// a row looks like that was written later than any rule allows for.
func TestTheSweepFindsWhatStandsBelowTheLowMark(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{Lease: 600 * time.Millisecond, SettleWindow: time.Millisecond})
		var got atomic.Int64
		r.sender.(*lanes).publisher = publishFunc(func(*message.Message) error {
			got.Add(1)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(t, <-done)
		}()

		write(t, g, "k", "first")
		first := number(t, g, "SELECT MIN(seq) FROM outbox_events")
		require.Eventually(t, func() bool {
			write(t, g, "k", "more") // marks move with what is published
			return number(t, g, "SELECT MAX(low) FROM outbox_partitions") > first
		}, 60*time.Second, 50*time.Millisecond, "the low mark passes the first event")

		before := number(t, g, "SELECT COUNT(*) FROM outbox_events")
		require.Eventually(t, func() bool { return got.Load() == before }, 60*time.Second, 5*time.Millisecond)
		_, err := r.store.exec(ctx, r.store.db, "UPDATE outbox_events SET processed_at = NULL WHERE seq = ?", first)
		require.NoError(t, err)
		var found []item
		steps, at := 0, sweeping{}
		for done := false; !done; steps++ {
			var some []item
			some, done, err = r.store.sweep(ctx, r.leases.current(), func(lease) int64 { return first }, &at, 10)
			require.NoError(t, err)
			found = append(found, some...)
			require.Less(t, steps, 100)
		}
		require.Len(t, found, 1)
		assert.Equal(t, first, found[0].Seq)
		assert.Zero(t, at, "the next one begins again")
		if g.Name() == "postgres" {
			assert.GreaterOrEqual(t, steps, gormoutbox.DefaultPartitions/sweepParts)
		}
	})
}

// TestASweepIsPublishedOnce: the sweep and the page may both have an event.
func TestASweepIsPublishedOnce(t *testing.T) {
	t.Parallel()
	p := page{items: keys(3)}
	late := append(keys(1), full(1, 9, "Z"))
	var seqs []int64
	for _, it := range p.with(late) {
		seqs = append(seqs, it.Seq)
	}
	assert.Equal(t, []int64{9, 1, 2, 3}, seqs)
}

// TestTheRelaySweeps runs the whole chain: an event behind the mark is published late rather than never.
func TestTheRelaySweeps(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{})
		r.firstSweep = time.Millisecond
		// Marks far ahead of the events, as if a row had been written after they passed.
		_, err := r.store.exec(t.Context(), r.store.db, "UPDATE outbox_partitions SET low = 1000000")
		require.NoError(t, err)
		write(t, g, "k", "late")
		got := make(chan string, 10)
		r.sender.(*lanes).publisher = publishFunc(func(msg *message.Message) error {
			got <- string(msg.Payload)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		select {
		case payload := <-got:
			assert.Equal(t, "late", payload)
		case <-time.After(60 * time.Second):
			t.Error("nothing was published")
		}
		cancel()
		require.NoError(t, <-done)
		assert.Empty(t, got, "once")
		assert.Zero(t, number(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"))
	})
}
