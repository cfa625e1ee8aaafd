package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/relay/relaytest"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	poisonedKey = "poisoned"
	healthyKeys = 500
	relayBatch  = 500
)

// TestPoisonedHead has an event that can't be published and very many of its aggregate behind it: all others
// must be published as if those did not exist, and the aggregate in its order once it is redriven.
func TestPoisonedHead(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, fresh func() testenv.Database) {
		healthy, behind := pick(1_000, 10_000), pick(5_000, 200_000)
		for _, c := range []struct {
			name   string
			wrap   func(t *testing.T, g *guard) message.Publisher
			config relay.Config
			tries  int
		}{
			{
				"in batches, parked at once",
				func(_ *testing.T, g *guard) message.Publisher { return guardedBatches{guarded: guarded{g}} },
				relay.Config{Classify: class(relay.Permanent)},
				1,
			},
			{
				"in batches to Kafka, parked at once",
				toKafka,
				relay.Config{Classify: class(relay.Permanent)},
				1,
			},
			{
				"one by one, parked after some attempts",
				func(_ *testing.T, g *guard) message.Publisher { return guarded{g} },
				relay.Config{Classify: class(relay.Retryable), MaxAttempts: 4, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond},
				4,
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				without := newBacklog(t, fresh(), healthy, -1)
				before := without.publishHealthy(t, c.wrap(t, without.guard), c.config)
				before.stop()
				without.ledger.check(t)

				b := newBacklog(t, fresh(), healthy, behind)
				run := b.publishHealthy(t, c.wrap(t, b.guard), c.config)
				b.checkParked(t, c.tries)
				t.Logf("%d events of %d other aggregates: %s and %d statements; without the poisoned one %s and %d; ratios %.2f and %.2f",
					healthy, healthyKeys, run.took.Round(time.Millisecond), run.statements, before.took.Round(time.Millisecond), before.statements,
					run.took.Seconds()/before.took.Seconds(), float64(run.statements)/float64(before.statements))
				b.passedOver(t)
				b.redrive(t)
				run.stop()
				b.ledger.check(t)
			})
		}
	})
}

// toKafka gives what the guard does not refuse to Kafka, to a topic of this test.
func toKafka(t *testing.T, g *guard) message.Publisher {
	t.Helper()
	b := testenv.Kafka(t)
	publisher, err := kafka.NewPublisher(b.Addrs, quiet)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, publisher.Close()) })
	next := inTopic{publisher, b.Topic(t, "poisoned-head", 8)}
	// Connections are made, and the broker's code is not new, before time counts.
	for range pick(1, 40) {
		batch := make([]watermilladapter.Outgoing, relayBatch)
		for i := range batch {
			batch[i].Message = message.NewMessage(watermill.NewUUID(), nil)
			batch[i].Message.Metadata.Set(gormoutbox.HeaderAggregateID, strconv.Itoa(i))
		}
		for _, err := range next.PublishBatch(t.Context(), batch) {
			require.NoError(t, err)
		}
	}
	return guardedBatches{guarded: guarded{g}, next: next}
}

// inTopic publishes everything to one topic.
type inTopic struct {
	watermilladapter.BatchPublisher

	topic string
}

// PublishBatch implements watermilladapter.BatchPublisher.
func (p inTopic) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	for i := range batch {
		batch[i].Topic = p.topic
	}
	return p.BatchPublisher.PublishBatch(ctx, batch)
}

// class makes the poison an error of its event; there is no other one.
func class(c relay.Class) func(error) relay.Class {
	return func(err error) relay.Class {
		if errors.Is(err, errPoison) {
			return c
		}
		return relay.Outage
	}
}

// backlog is an outbox full of events.
type backlog struct {
	db      *gorm.DB
	pool    *gorm.DB  // of the relay
	counts  *counting // what the pool does
	ledger  *ledger
	guard   *guard
	healthy int
}

// newBacklog makes one, with the poisoned head first and the rows behind it among the healthy ones. -1 rows means that there is no head, either.
func newBacklog(t *testing.T, db testenv.Database, healthy, behind int) *backlog {
	t.Helper()
	b := &backlog{db: prepare(t, db), ledger: newLedger(nil), healthy: healthy}
	b.pool, b.counts = openCounting(t, db, 4, poisonedKey)
	b.guard = &guard{sink: newSink(b.ledger), aggregate: poisonedKey}

	const step = 1000
	total, positions := healthy+behind+1, map[string]int64{}
	var events []gormoutbox.Event
	for i := range total {
		key := poisonedKey
		if n := i * healthy / total; n < (i+1)*healthy/total {
			key = "healthy " + strconv.Itoa(n%healthyKeys)
		}
		positions[key]++
		id := uuid.New()
		if key == poisonedKey && positions[key] == 1 {
			b.guard.head = id.String()
		}
		b.ledger.Intended(relaytest.Event{ID: id.String(), AggregateType: kind, AggregateID: key, Position: positions[key]})
		events = append(events, gormoutbox.Event{ID: id, AggregateType: kind, AggregateID: key, Type: "account.moved", Payload: strconv.FormatInt(positions[key], 10)})
		if len(events) == step || i == total-1 {
			require.NoError(t, gormoutbox.Append(b.db, events...))
			for _, e := range events {
				b.ledger.Committed(e.ID.String())
			}
			events = events[:0]
		}
	}
	require.NoError(t, b.db.Exec(map[string]string{"postgres": "ANALYZE outbox_events", "mysql": "ANALYZE TABLE outbox_events"}[b.db.Name()]).Error)
	return b
}

// publishing is a relay that runs, and what it took until the healthy events were published.
type publishing struct {
	took       time.Duration
	statements int64
	stop       func()
}

func (b *backlog) publishHealthy(t *testing.T, publisher message.Publisher, config relay.Config) publishing {
	t.Helper()
	config.Logger, config.BatchSize = quiet, relayBatch
	// Low marks move, and are saved, soon enough to be waited for. All events were written before.
	config.Lease, config.SettleWindow = 6*time.Second, 100*time.Millisecond
	r, err := relay.New(b.pool, publisher, config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.counts.reset()
	begin := time.Now()
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	p := publishing{stop: func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-ended)
		}
	}}
	t.Cleanup(p.stop)
	b.guard.sink.wait(t, b.healthy)
	p.took, p.statements = time.Since(begin), b.counts.statements.Load()
	return p
}

// checkParked expects that only the head was tried, that it is parked, and that nothing behind it was touched.
func (b *backlog) checkParked(t *testing.T, tries int) {
	t.Helper()
	assert.Eventually(t, func() bool { return count(t, b.db, held+" WHERE until IS NULL") == 1 }, patience, 5*time.Millisecond, "it is not parked")
	assert.Eventually(t, func() bool { return count(t, b.db, unpublished+" AND aggregate_id <> '"+poisonedKey+"'") == 0 }, patience, 5*time.Millisecond,
		"the others are not settled")
	b.guard.mu.Lock()
	defer b.guard.mu.Unlock()
	assert.Equal(t, tries, b.guard.heads, "attempts of the head")
	assert.Zero(t, b.guard.alone, "rows behind the head were offered without it")
	assert.LessOrEqual(t, b.guard.calls, 1, "rows behind the head were read again")
	assert.Equal(t, b.healthy, b.guard.sink.count(), "something behind the head was published")
	assert.Equal(t, 1, count(t, b.db, charged), "rows that were charged")
	assert.Equal(t, 1, count(t, b.db, held))
	// The page in which the head failed for the first time, and then the head alone.
	fetched := b.counts.rows.Load()
	assert.LessOrEqual(t, fetched, int64(relayBatch+tries), "rows of the poisoned aggregate that were read")
	t.Logf("of the poisoned aggregate %d of %d rows were read; its head was offered %d times, and %d rows behind it with it in one batch",
		fetched, b.ledger.total()-b.healthy, b.guard.heads, b.guard.behind)
}

// passedOver waits until the relay does not even look from where the head is, so that the redrive has to bring it back.
func (b *backlog) passedOver(t *testing.T) {
	t.Helper()
	part := gormoutbox.Partition(kind, poisonedKey, gormoutbox.DefaultPartitions)
	last := count(t, b.db, "SELECT MAX(seq) FROM outbox_events WHERE aggregate_id = '"+poisonedKey+"'")
	assert.Eventually(t, func() bool {
		return count(t, b.db, fmt.Sprintf("SELECT low FROM outbox_partitions WHERE part = %d", part)) >= last
	}, patience, 20*time.Millisecond, "the low mark stays before the rows of the poisoned aggregate")
}

// redrive lets the aggregate go on without its poison and waits for all of it.
func (b *backlog) redrive(t *testing.T) {
	t.Helper()
	o, err := relay.NewOperator(b.db, "")
	require.NoError(t, err)
	b.guard.cure()
	b.counts.reset()
	begin := time.Now()
	require.NoError(t, o.Redrive(t.Context(), kind, poisonedKey))
	b.guard.sink.wait(t, b.ledger.total())
	took := time.Since(begin)
	settled(t, b.db)
	assert.Zero(t, count(t, b.db, held))
	n := b.ledger.total() - b.healthy
	t.Logf("redriven: %d events of one aggregate in %s, %.0f a second, by %d statements that read %d rows of it", n, took.Round(time.Millisecond),
		float64(n)/took.Seconds(), b.counts.statements.Load(), b.counts.rows.Load())
}
