// Package pause is how long to wait after failures, and the waiting.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is the pause after n failures in a row: low doubled n-1 times, at most high, less up to a
// quarter at random, so that what failed together does not come back together. low must be positive.
func Backoff(low, high time.Duration, n int) time.Duration {
	d := low
	for range n - 1 {
		if d >= high/2 {
			d = high
			break
		}
		d *= 2
	}
	return Spread(min(d, high))
}

// Spread takes off up to a quarter at random.
func Spread(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/4+1)) //nolint:gosec // spread, not secrecy
}

// Sleep waits for d. It returns false, at once, if ctx ends before or has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false // or select could choose the timer if both are ready
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
