package kafka_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// repeater publishes the numbers of some keys like a relay: in batches, and
// again from the first of a key that has an error.
type repeater struct {
	publisher *kafka.Publisher
	topic     string
	keys      []string
	settled   map[string]int // how many of each key
	step      func(batches, failed int)
}

func (r *repeater) run(t *testing.T, each, size int) {
	t.Helper()
	r.settled = map[string]int{}
	for batches := 1; ; batches++ {
		var batch []watermilladapter.Outgoing
		for k, key := range r.keys {
			share := size / 2 / (len(r.keys) - 1)
			if k == 0 { // the hot one
				share = size / 2
			}
			for n := r.settled[key]; n < min(each, r.settled[key]+share); n++ {
				batch = append(batch, event(r.topic, key, n))
			}
		}
		if len(batch) == 0 {
			return
		}
		failed := map[string]bool{}
		for i, err := range r.publisher.PublishBatch(t.Context(), batch) {
			key := batch[i].Message.Metadata.Get(gormoutbox.HeaderAggregateID)
			switch {
			case err != nil:
				assert.True(t, kafka.IsOutage(err), "%v", err)
				failed[key] = true
			case failed[key]:
				assert.Fail(t, "sent behind a failed one", "%s", key)
			default:
				r.settled[key]++
			}
		}
		r.step(batches, len(failed))
	}
}

func TestTheBrokerIsKilled(t *testing.T) {
	t.Parallel()
	broker := startPrivateBroker(t)
	shared := testenv.Broker{Addrs: []string{broker.address}}
	topic := shared.Topic(t, "killed", 3)
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: shared.Addrs})

	r := &repeater{publisher: publisher, topic: topic}
	for k := range 11 {
		r.keys = append(r.keys, fmt.Sprint("key-", k))
	}
	const each, size, kills = 3000, 200, 2
	var killing sync.WaitGroup
	killed, failures := 0, 0
	r.step = func(batches, failed int) {
		failures += failed
		killing.Wait()
		switch {
		case broker.cmd == nil && failed > 0:
			broker.start(t)
		case broker.cmd != nil && batches%10 == 0 && killed < kills:
			killed++
			killing.Go(broker.kill) // in the middle of the next batch
		}
	}
	r.run(t, each, size)
	killing.Wait()
	if broker.cmd == nil {
		broker.start(t)
	}
	assert.Equal(t, kills, killed)
	assert.Positive(t, failures, "no batch met a dead broker")

	next := map[string]int{}
	duplicates := 0
	for key, numbers := range numbersOf(t, readUntilEnd(t, shared.Addrs, topic)) {
		for _, n := range numbers {
			require.LessOrEqual(t, n, next[key], "first delivery of %s", key)
			if n == next[key] {
				next[key]++
			} else {
				duplicates++
			}
		}
	}
	t.Logf("%d failures, %d duplicates", failures, duplicates)
	for _, key := range r.keys {
		assert.Equal(t, each, next[key], "of %s", key)
	}
}
