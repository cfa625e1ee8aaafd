package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestOldEventsAreRemoved, and only those that were published long enough ago.
func TestOldEventsAreRemoved(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{Retention: time.Hour})
		write(t, g, "k", "old0", "pending", "old1", "young", "above")
		part := int(number(t, g, "SELECT part FROM outbox_events LIMIT 1"))
		exec := func(query string, args ...any) {
			_, err := r.store.exec(t.Context(), r.store.db, query, args...)
			require.NoError(t, err)
		}
		set := func(age time.Duration, where string) {
			exec("UPDATE outbox_events SET processed_at = " + r.store.dialect.NowPlus(-age) + " WHERE " + where)
		}
		seqs := []int64{}
		require.NoError(t, g.Raw("SELECT seq FROM outbox_events ORDER BY seq").Scan(&seqs).Error)
		set(2*time.Hour, fmt.Sprintf("seq IN (%d, %d, %d)", seqs[0], seqs[2], seqs[4]))
		set(time.Minute, fmt.Sprintf("seq = %d", seqs[3]))
		exec("UPDATE outbox_partitions SET low = ? WHERE part = ?", seqs[3], part)

		require.NoError(t, r.retainPart(t.Context(), lease{part: part}))
		left := []int64{}
		require.NoError(t, g.Raw("SELECT seq FROM outbox_events ORDER BY seq").Scan(&left).Error)
		assert.Equal(t, []int64{seqs[1], seqs[3], seqs[4]}, left, "pending, young, and above the low mark")
	})
}

// TestRetentionGoesOnBehindAFullStep although the first rows are not published.
func TestRetentionGoesOnBehindAFullStep(t *testing.T) {
	t.Parallel()
	g, r := migrated(t, testenv.SQLite(t), Config{Retention: time.Hour})
	payloads := make([]string, 2*retainRows+10)
	write(t, g, "k", payloads...)
	part := int(number(t, g, "SELECT part FROM outbox_events LIMIT 1"))
	first := number(t, g, "SELECT MIN(seq) FROM outbox_events")
	old := r.store.dialect.NowPlus(-2 * time.Hour)
	for query, args := range map[string][]any{
		"UPDATE outbox_events SET processed_at = " + old + " WHERE seq >= ?": {first + retainRows},
		"UPDATE outbox_partitions SET low = 1000000 WHERE part = ?":          {part},
	} {
		_, err := r.store.exec(t.Context(), r.store.db, query, args...)
		require.NoError(t, err)
	}
	require.NoError(t, r.retainPart(t.Context(), lease{part: part}))
	assert.EqualValues(t, retainRows, number(t, g, "SELECT COUNT(*) FROM outbox_events"))
}

// TestARelayRemovesOldEventsByItself in all of its partitions.
func TestARelayRemovesOldEventsByItself(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{Retention: time.Second, Lease: 600 * time.Millisecond, SettleWindow: 10 * time.Millisecond})
		r.retainEvery = 10 * time.Millisecond
		r.sender.(*lanes).publisher = publishFunc(func(*message.Message) error { return nil })
		for i := range 20 {
			write(t, g, fmt.Sprint(i), "x", "y")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.Eventually(t, func() bool { return number(t, g, "SELECT COUNT(*) FROM outbox_events") == 0 }, time.Minute, 5*time.Millisecond)
		cancel()
		require.NoError(t, <-done)
	})
}
