package kafka_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

var silent = slog.New(slog.DiscardHandler)

const patience = 30 * time.Second

// readAll reads a topic from its beginning until it has n records, each
// partition in order.
func readAll(t *testing.T, brokers []string, topic string, n int) []*sarama.ConsumerMessage {
	t.Helper()
	consumer, err := sarama.NewConsumer(brokers, kafka.SubscriberConfig())
	require.NoError(t, err)
	defer func() { assert.NoError(t, consumer.Close()) }()
	partitions, err := consumer.Partitions(topic)
	require.NoError(t, err)
	all := make(chan *sarama.ConsumerMessage)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, partition := range partitions {
		claim, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		require.NoError(t, err)
		readers.Go(func() {
			defer claim.Close() //nolint:errcheck // the test has all it wants
			for {
				select {
				case record := <-claim.Messages():
					select {
					case all <- record:
					case <-stop:
						return
					}
				case <-stop:
					return
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)

	var got []*sarama.ConsumerMessage
	timeout := time.After(patience)
	for len(got) < n {
		select {
		case record := <-all:
			got = append(got, record)
		case <-timeout:
			require.Failf(t, "too few records", "%d of %d", len(got), n)
		}
	}
	return got
}

func TestKeysOnTheBroker(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "keys", 6)
	publisher, err := kafka.NewPublisher(broker.Addrs, silent)
	require.NoError(t, err)
	defer func() { assert.NoError(t, publisher.Close()) }()

	// One lane for each key, as a relay does; messages without a key in between.
	const keys, each, keyless = 12, 25, 60
	sent := sync.Map{} // of *message.Message by UUID
	var lanes sync.WaitGroup
	for k := range keys {
		lanes.Go(func() {
			for i := range each {
				msg := newMessage(fmt.Append(nil, i), map[string]string{gormoutbox.HeaderAggregateID: fmt.Sprintf("order-%d", k), "own": "x\x00y"})
				sent.Store(msg.UUID, msg)
				assert.NoError(t, publisher.Publish(topic, msg))
			}
		})
	}
	lanes.Go(func() {
		for range keyless {
			msg := newMessage([]byte{0, 0xff}, map[string]string{})
			sent.Store(msg.UUID, msg)
			assert.NoError(t, publisher.Publish(topic, msg))
		}
	})
	lanes.Wait()

	next := map[string]int{}
	partitionOf := map[string]int32{}
	spread := map[int32]bool{}
	for _, record := range readAll(t, broker.Addrs, topic, keys*each+keyless) {
		msg, err := kafka.Marshaler{}.Unmarshal(record)
		require.NoError(t, err)
		want, ok := sent.LoadAndDelete(msg.UUID)
		require.True(t, ok, "unknown or twice: %s", msg.UUID)
		assertSame(t, want.(*message.Message), msg)
		if msg.Metadata.Get(gormoutbox.HeaderAggregateID) == "" {
			assert.Nil(t, record.Key)
			spread[record.Partition] = true
			continue
		}
		key := string(record.Key)
		assert.Equal(t, msg.Metadata.Get(gormoutbox.HeaderAggregateID), key)
		assert.Equal(t, fmt.Sprint(next[key]), string(msg.Payload), "order of %s", key)
		next[key]++
		if p, seen := partitionOf[key]; seen {
			assert.Equal(t, p, record.Partition, "partition of %s", key)
		}
		partitionOf[key] = record.Partition
	}
	assert.Len(t, next, keys)
	assert.Greater(t, len(spread), 1, "messages without a key are spread")
}

func TestTombstonesOnTheBroker(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "tombstones", 1)
	publisher, err := kafka.NewPublisher(broker.Addrs, silent)
	require.NoError(t, err)
	defer func() { assert.NoError(t, publisher.Close()) }()

	require.NoError(t, publisher.Publish(topic, newMessage(nil, nil), newMessage([]byte{}, nil)))
	records := readAll(t, broker.Addrs, topic, 2)
	assert.Nil(t, records[0].Value, "a nil payload is a record without a value")
	assert.Equal(t, []byte{}, records[1].Value, "an empty payload is an empty value")
}

func TestNewGroupsBeginWithTheOldestMessage(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "oldest", 3)
	publisher, err := kafka.NewPublisher(broker.Addrs, silent)
	require.NoError(t, err)
	defer func() { assert.NoError(t, publisher.Close()) }()
	want, got := map[string]bool{}, map[string]bool{}
	publish := func(n int) {
		for range n {
			msg := newMessage([]byte("x"), map[string]string{gormoutbox.HeaderAggregateID: fmt.Sprint(len(want))})
			want[msg.UUID] = true
			require.NoError(t, publisher.Publish(topic, msg))
		}
	}
	receive := func(n int) {
		subscriber, err := kafka.NewSubscriber(broker.Addrs, topic+"-group", silent)
		require.NoError(t, err)
		defer func() { assert.NoError(t, subscriber.Close()) }()
		messages, err := subscriber.Subscribe(t.Context(), topic)
		require.NoError(t, err)
		timeout := time.After(patience)
		for len(got) < n {
			select {
			case msg := <-messages:
				require.True(t, want[msg.UUID], "unknown: %s", msg.UUID)
				got[msg.UUID] = true // perhaps again: Close may overtake the last Ack
				key, ok := wkafka.MessageKeyFromCtx(msg.Context())
				assert.True(t, ok)
				assert.Equal(t, msg.Metadata.Get(gormoutbox.HeaderAggregateID), string(key))
				msg.Ack()
			case <-timeout:
				require.Failf(t, "too few messages", "%d of %d", len(got), n)
			}
		}
	}

	publish(20) // before the group exists
	receive(20)
	publish(5) // while it has no member
	receive(25)
}

func TestInteroperatesOnTheBroker(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "interop", 1)
	for name, m := range map[string]wkafka.MarshalerUnmarshaler{"default": wkafka.DefaultMarshaler{}, "ours": kafka.Marshaler{}} {
		publisher, err := wkafka.NewPublisher(wkafka.PublisherConfig{
			Brokers: broker.Addrs, Marshaler: m, OverwriteSaramaConfig: kafka.PublisherConfig(),
		}, nil)
		require.NoError(t, err)
		msg := newMessage([]byte(name), map[string]string{gormoutbox.HeaderAggregateID: "7"})
		require.NoError(t, publisher.Publish(topic, msg))
		require.NoError(t, publisher.Close())
	}
	for _, record := range readAll(t, broker.Addrs, topic, 2) {
		ours, err := kafka.Marshaler{}.Unmarshal(record)
		require.NoError(t, err)
		theirs, err := wkafka.DefaultMarshaler{}.Unmarshal(record)
		require.NoError(t, err)
		assertSame(t, theirs, ours)
		assert.Equal(t, string(ours.Payload) == "ours", record.Key != nil, "DefaultMarshaler sets no key")
	}
}
