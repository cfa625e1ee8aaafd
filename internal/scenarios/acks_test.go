package scenarios_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// acks is a publisher to Kafka that notes when the broker had what.
type acks struct {
	*kafka.Publisher

	mu      sync.Mutex
	at      map[string]time.Time
	changed chan struct{}
}

var (
	_ watermilladapter.BatchPublisher  = (*acks)(nil)
	_ watermilladapter.ErrorClassifier = (*acks)(nil)
)

func (b *broker) publisher(t *testing.T) *acks {
	t.Helper()
	config := kafka.PublisherConfig()
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, b.wire
	inner, err := kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: []string{b.address}, Logger: quiet, Sarama: config})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, inner.Close()) })
	return &acks{Publisher: inner, at: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

// PublishBatch implements watermilladapter.BatchPublisher.
func (a *acks) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	errs := a.Publisher.PublishBatch(ctx, batch)
	now := time.Now()
	a.mu.Lock()
	for i, err := range errs {
		if id := batch[i].Message.UUID; err == nil && a.at[id].IsZero() {
			a.at[id] = now
		}
	}
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return errs
}

// last says how many of the events the broker has, and since when it has the last of them.
func (a *acks) last(ids []string) (n int, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if at, ok := a.at[id]; ok {
			n++
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

// wait returns when the broker has all of the events, and fails if no more come.
func (a *acks) wait(t *testing.T, ids []string) {
	t.Helper()
	idle := time.NewTimer(patience)
	defer idle.Stop()
	before := 0
	for {
		n, _ := a.last(ids)
		if n == len(ids) {
			return
		}
		if n > before {
			before = n
			idle.Reset(patience)
		}
		select {
		case <-a.changed:
		case <-idle.C:
			assert.Fail(t, "events don't come", "%d of %d came", n, len(ids))
			return
		}
	}
}
