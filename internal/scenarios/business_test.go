package scenarios_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// phase is a part of a test, for which latencies are kept apart.
type phase int32

const (
	beforeOutage phase = iota
	duringOutage
	afterOutage
	phases
)

// business is load at a moderate rate, each transaction of which is timed.
type business struct {
	now  atomic.Int32 // the phase
	stop chan struct{}
	wg   sync.WaitGroup

	mu        sync.Mutex
	latencies [phases][]time.Duration
}

// startBusiness starts the writers, with a transaction every interval each.
func startBusiness(t *testing.T, db testenv.Database, seed uint64, interval time.Duration, l *ledger, topic string) *business {
	t.Helper()
	b := &business{stop: make(chan struct{})}
	for n := range writers {
		w := &writer{db: open(t, db, 2), random: randomOf(seed, n), ledger: l, topic: topic}
		b.wg.Go(func() {
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			for {
				select {
				case <-b.stop:
					return
				case <-ticker.C:
					b.transaction(t, w)
				}
			}
		})
	}
	return b
}

func (b *business) transaction(t *testing.T, w *writer) {
	p, begin := b.now.Load(), time.Now()
	w.write(t, 3)
	took := time.Since(begin)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latencies[p] = append(b.latencies[p], took)
}

// enter begins a phase.
func (b *business) enter(p phase) { b.now.Store(int32(p)) }

// end ends the load and returns when all its transactions have.
func (b *business) end() {
	close(b.stop)
	b.wg.Wait()
}

// of are the latencies of a phase.
func (b *business) of(p phase) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latencies[p]
}
