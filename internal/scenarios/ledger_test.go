package scenarios_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// ledger is what writers have written: a checker, and when each event was committed.
type ledger struct {
	*relaytest.Checker

	mu        sync.Mutex
	committed map[string]time.Time
}

func newLedger(cause relaytest.CauseFunc) *ledger {
	return &ledger{Checker: relaytest.NewChecker(relaytest.Config{Cause: cause}), committed: map[string]time.Time{}}
}

// Committed says that the transaction of these events has committed.
func (l *ledger) Committed(ids ...string) {
	l.Checker.Committed(ids...)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.committed[id] = now
	}
}

// until lists the events that were committed before a time.
func (l *ledger) until(end time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, at := range l.committed {
		if at.Before(end) {
			ids = append(ids, id)
		}
	}
	return ids
}

// total is how many events were committed.
func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.committed)
}

// check expects no findings but duplicates that a crash explains.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	report := l.Report()
	assert.NoError(t, report.Err(), "%s", report)
	assert.Equal(t, l.total(), report.Committed)
	assert.Zero(t, report.Unknown, "events whose COMMIT failed")
	t.Logf("%d events committed, %d rolled back; %d lost, %d invented, %d inverted, duplicates: %d after crashes, %d others", report.Committed,
		report.RolledBack, report.Lost(), report.Invented(), report.Inverted(), report.Duplicates(relaytest.Crash),
		report.Duplicates(relaytest.Unexplained)+report.Duplicates(relaytest.Graceful))
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
