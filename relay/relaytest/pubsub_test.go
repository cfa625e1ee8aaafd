package relaytest_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// testUUID is the header with the UUID that Watermill's tests gave to a message. In the outbox it
// has an id of its own, since theirs are not always UUIDs and come more than once.
const testUUID = "test_uuid"

// outboxPublisher is a publisher that appends to an outbox, one aggregate a topic.
type outboxPublisher struct {
	outbox *outbox
	closed atomic.Bool
}

var errClosed = errors.New("it is closed")

func (p *outboxPublisher) Publish(topic string, messages ...*message.Message) error {
	if p.closed.Load() {
		return errClosed
	}
	events := make([]gormoutbox.Event, len(messages))
	for i, m := range messages {
		headers := maps.Clone(m.Metadata)
		headers.Set(testUUID, m.UUID)
		events[i] = gormoutbox.Event{
			AggregateType: "topic", AggregateID: topic, Type: "tested", Topic: topic, Payload: append([]byte{}, m.Payload...), Headers: headers,
		}
	}
	p.outbox.mu.Lock() // serializes the writers of an aggregate, which makes its order
	defer p.outbox.mu.Unlock()
	return gormoutbox.Append(p.outbox.db, events...)
}

func (p *outboxPublisher) Close() error {
	p.closed.Store(true)
	return nil
}

// restoring gives messages of watermill-kafka their UUIDs of the tests again.
type restoring struct{ kafka.Marshaler }

func (r restoring) Unmarshal(record *sarama.ConsumerMessage) (*message.Message, error) {
	m, err := r.Marshaler.Unmarshal(record)
	if err != nil {
		return nil, err
	}
	if _, err := watermilladapter.FromMessage(m); err != nil {
		return nil, err // it was not the relay that published it
	}
	m.UUID = m.Metadata.Get(testUUID)
	delete(m.Metadata, testUUID)
	return m, nil
}

// outbox is an outbox with a relay to Kafka, for all tests of the suite.
type outbox struct {
	db     *gorm.DB
	broker testenv.Broker
	mu     sync.Mutex
}

func newOutbox(t *testing.T) *outbox {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	o := &outbox{broker: testenv.Kafka(t), db: testenv.SQLite(t).Open(t)}
	require.NoError(t, o.db.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), o.db))
	publisher, err := kafka.NewPublisher(o.broker.Addrs, quiet)
	require.NoError(t, err)
	r, err := relay.New(o.db, publisher, relay.Config{Logger: quiet})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, publisher.Close())
	})
	return o
}

func (o *outbox) pubSub(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	s, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
		Brokers: o.broker.Addrs, Unmarshaler: restoring{}, OverwriteSaramaConfig: kafka.SubscriberConfig(), ConsumerGroup: group,
		InitializeTopicDetails: &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}, NackResendSleep: time.Millisecond,
	}, watermill.NopLogger{})
	require.NoError(t, err)
	return &outboxPublisher{outbox: o}, s
}

// TestWatermillsOwnSuite runs Watermill's tests of Pub/Subs over an outbox and a relay in front of Kafka. In front of
// gochannel they can't run: it keeps an order only if Publish waits for the subscribers, and then nobody can unsubscribe meanwhile.
//
//   - ExactlyOnceDelivery is false: an outbox delivers at least once.
//   - GuaranteedOrder is true: the topic is the aggregate, and so the key, which has one partition.
//   - ContextPreserved is false: the context of a message ends at the outbox.
//   - There is no RestartServiceCommand: other tests use the broker.
func TestWatermillsOwnSuite(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, GuaranteedOrder: true, Persistent: true,
	}, func(t *testing.T) (message.Publisher, message.Subscriber) {
		t.Helper()
		return o.pubSub(t, "test")
	}, o.pubSub)
}
