package pause_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/internal/pause"
)

func TestBackoffDoublesToItsBound(t *testing.T) {
	t.Parallel()
	const low, high = 100 * time.Millisecond, time.Second
	for n, want := range map[int]time.Duration{-1: low, 0: low, 1: low, 2: 2 * low, 3: 4 * low, 4: 8 * low, 5: high, 1_000_000: high, math.MaxInt: high} {
		within(t, want, func() time.Duration { return pause.Backoff(low, high, n) })
	}
}

func TestBackoffOfExtremes(t *testing.T) {
	t.Parallel()
	within(t, math.MaxInt64, func() time.Duration { return pause.Backoff(time.Second, math.MaxInt64, 100) })
	within(t, time.Second, func() time.Duration { return pause.Backoff(time.Minute, time.Second, 1) })
	assert.Equal(t, time.Duration(1), pause.Backoff(1, 1, 7))
}

func TestSpread(t *testing.T) {
	t.Parallel()
	within(t, time.Minute, func() time.Duration { return pause.Spread(time.Minute) })
	assert.Zero(t, pause.Spread(0))
}

// within checks that all are at most want, none less by more than a quarter, and that they differ.
func within(t *testing.T, want time.Duration, next func() time.Duration) {
	t.Helper()
	seen := map[time.Duration]bool{}
	for range 200 {
		d := next()
		assert.LessOrEqual(t, d, want)
		assert.GreaterOrEqual(t, d, want-want/4)
		seen[d] = true
	}
	assert.Greater(t, len(seen), 100, "jitter")
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		assert.True(t, pause.Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(begin))

		begin = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		assert.False(t, pause.Sleep(ctx, time.Hour))
		assert.Equal(t, time.Minute, time.Since(begin))
		for range 100 {
			assert.False(t, pause.Sleep(ctx, 0), "it has ended before")
		}
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}
