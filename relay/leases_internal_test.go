package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestALeaseEndsByTheProcessesOwnClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLeases(nil, "me", time.Second)
	l.now = func() time.Time { return now }
	l.owned[1] = lease{part: 1, token: "t", until: now.Add(time.Second)}
	assert.True(t, l.valid(1))
	assert.False(t, l.valid(2))
	assert.Len(t, l.current(), 1)
	now = now.Add(time.Second)
	assert.False(t, l.valid(1), "nothing of it is published any more")
	assert.Empty(t, l.current(), "nor read")
	assert.Len(t, l.all(), 1, "but it is renewed if nobody has taken it meanwhile")
}

// TestRenewal: what is still ours is prolonged from before the statement, what is not is dropped,
// and what was given back meanwhile does not come back.
func TestRenewal(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{Lease: time.Minute})
		now := time.Now()
		r.leases.now = func() time.Time { return now }
		require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
		require.Len(t, r.leases.current(), gormoutbox.DefaultPartitions)
		require.NoError(t, g.Exec("UPDATE outbox_partitions SET token = 'other' WHERE part = 3").Error)
		r.leases.drop([]int{4})
		now = now.Add(time.Hour) // they ran out, and nobody took them
		require.NoError(t, r.leases.renew(t.Context()))
		assert.Len(t, r.leases.current(), gormoutbox.DefaultPartitions-2)
		assert.True(t, r.leases.valid(1))
		assert.False(t, r.leases.valid(3))
		assert.False(t, r.leases.valid(4))
		assert.EqualValues(t, 1, number(t, g, "SELECT COUNT(*) FROM outbox_relays"), "a sign of life")
		assert.EqualValues(t, 1, number(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE token = 'other'"))
	})
}

// TestLeasesAreRenewedWithoutTheSignOfLife, which is worth less.
func TestLeasesAreRenewedWithoutTheSignOfLife(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g, r := migrated(t, db, Config{Lease: time.Minute})
		now := time.Now()
		r.leases.now = func() time.Time { return now }
		require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
		now = now.Add(time.Hour)
		require.NoError(t, g.Exec("DROP TABLE outbox_relays").Error)
		require.Error(t, r.leases.renew(t.Context()))
		assert.Len(t, r.leases.current(), gormoutbox.DefaultPartitions)
	})
}

func TestWhatIsKeptOfAnError(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a\uFFFDb", errorText(errors.New("a\x00\xff\xfeb")))
	long := make([]rune, 1500)
	for i := range long {
		long[i] = 'ü'
	}
	assert.Len(t, errorText(errors.New("x"+string(long))), maxError-1, "not cut within a character")
}
