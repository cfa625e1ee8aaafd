package pgwake

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause after n failures in a row: low doubled n-1 times, at most
// high, less some at random, so that processes which lost the server together do not come back together.
func backoff(low, high time.Duration, n int) time.Duration {
	d := low
	for range n - 1 {
		if d >= high/2 {
			d = high
			break
		}
		d *= 2
	}
	return spread(min(d, high))
}

// spread takes off up to a quarter at random.
func spread(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/4+1)) //nolint:gosec // spread, not secrecy
}

// sleep returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
