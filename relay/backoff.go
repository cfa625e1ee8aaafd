package relay

import (
	"math/rand/v2"
	"time"
)

// backoff is the pause before the attempt that follows n charged ones: low
// doubled n-1 times, at most high, less up to a quarter at random, so that events
// which failed together do not come back together.
func backoff(low, high time.Duration, n int) time.Duration {
	d := low
	for range n - 1 {
		if d >= high/2 {
			d = high
			break
		}
		d *= 2
	}
	d = min(d, high)
	return d - time.Duration(rand.Int64N(int64(d)/4+1)) //nolint:gosec // spread, not secrecy
}
