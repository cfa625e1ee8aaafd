package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// waits measures a wait of the pacer on the bubble's clock.
func waits(t *testing.T, p *pacer, worked bool) time.Duration {
	t.Helper()
	begin := time.Now()
	p.wait(t.Context(), worked)
	return time.Since(begin)
}

func TestThePauseGrowsWhileThereIsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(5*time.Millisecond, 500*time.Millisecond)
		assert.Zero(t, waits(t, p, true))
		for _, want := range []int64{5, 10, 20, 40, 80, 160, 320, 500, 500} {
			assert.Equal(t, want, waits(t, p, false).Milliseconds())
		}
		assert.Zero(t, waits(t, p, true), "there may be more")
		assert.Equal(t, 5*time.Millisecond, waits(t, p, false), "short again after work")
	})
}

func TestACommitEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		committed := make(chan struct{}, 1)
		p := newPacer(time.Hour, time.Hour)
		p.committed = committed
		time.AfterFunc(time.Second, func() { committed <- struct{}{} })
		assert.Equal(t, time.Second, waits(t, p, false))
		committed <- struct{}{}
		assert.Zero(t, waits(t, p, false), "also one that came before the pause")
	})
}

func TestAPendingHintKeepsThePauseShortForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pending := make(chan struct{}, 1)
		p := newPacer(10*time.Millisecond, time.Hour)
		p.next, p.pending = time.Hour, pending
		begin := time.Now()
		pending <- struct{}{}
		polls := 0
		for time.Since(begin) < pendingWindow {
			assert.Equal(t, 10*time.Millisecond, waits(t, p, false))
			polls++
		}
		assert.Equal(t, 100, polls)
		waits(t, p, false)
		assert.Greater(t, waits(t, p, false), 10*time.Millisecond, "then it grows")
	})
}

func TestAPauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		newPacer(time.Hour, time.Hour).wait(ctx, false)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}
