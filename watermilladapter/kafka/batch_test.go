package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// event is message n of an aggregate.
func event(topic, key string, n int) watermilladapter.Outgoing {
	return watermilladapter.Outgoing{Topic: topic, Message: newMessage([]byte(strconv.Itoa(n)), map[string]string{
		gormoutbox.HeaderAggregateType: "order", gormoutbox.HeaderAggregateID: key,
	})}
}

// numbersOf lists the numbers of each key in the order of arrival.
func numbersOf(t *testing.T, records []*sarama.ConsumerMessage) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for _, record := range records {
		digits, _, _ := strings.Cut(string(record.Value), " ")
		n, err := strconv.Atoi(digits)
		require.NoError(t, err)
		all[string(record.Key)] = append(all[string(record.Key)], n)
	}
	return all
}

func newPublisher(t testing.TB, options kafka.PublisherOptions) *kafka.Publisher {
	t.Helper()
	options.Logger = silent
	publisher, err := kafka.NewPublisherWith(options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, publisher.Close()) })
	return publisher
}

func TestBatchesArriveInOrder(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	for _, keys := range []int{1, 50} {
		t.Run(strconv.Itoa(keys), func(t *testing.T) {
			t.Parallel()
			topic := broker.Topic(t, "batch", 6)
			publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs})
			const size, batches = 500, 4
			for b := range batches {
				var batch []watermilladapter.Outgoing
				for i := range size {
					n := b*size + i
					batch = append(batch, event(topic, fmt.Sprint(n%keys), n))
				}
				for i, err := range publisher.PublishBatch(t.Context(), batch) {
					require.NoError(t, err, "%d", i)
				}
			}
			for key, numbers := range numbersOf(t, readAll(t, broker.Addrs, topic, size*batches)) {
				for i, n := range numbers {
					require.Equal(t, key, fmt.Sprint(n%keys))
					require.Equal(t, i, n/keys, "order of %s", key)
				}
			}
		})
	}
}

func TestNothingIsSentBehindAMessageThatCannotBe(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "behind", 1)
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs})

	large := event(topic, "large", 1)
	large.Message.Payload = bytes.Repeat([]byte("x"), kafka.PublisherConfig().Producer.MaxMessageBytes)
	taken := event(topic, "taken", 1)
	taken.Message.Metadata.Set(wkafka.UUIDHeaderKey, "x")
	errs := publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{
		event(topic, "large", 0), large, event(topic, "well", 0), event(topic, "taken", 0), taken, event(topic, "large", 2),
		{Topic: topic},
		event(topic, "taken", 2), event(topic, "well", 1), event(topic, "large", 3),
	})
	for _, i := range []int{0, 2, 3, 8} {
		assert.NoError(t, errs[i], "%d", i)
	}
	assert.True(t, kafka.IsPermanent(errs[1]), "%v", errs[1])
	var refused *watermilladapter.Error
	assert.ErrorAs(t, errs[4], &refused)
	assert.ErrorAs(t, errs[6], &refused, "no message")
	for i, failed := range map[int]string{5: large.Message.UUID, 7: taken.Message.UUID, 9: large.Message.UUID} {
		var behind *kafka.BehindError
		if assert.ErrorAs(t, errs[i], &behind, "%d", i) {
			assert.Equal(t, failed, behind.UUID)
		}
	}

	require.NoError(t, publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{event(topic, "end", 0)})[0])
	assert.Equal(t, map[string][]int{"large": {0}, "well": {0, 1}, "taken": {0}, "end": {0}},
		numbersOf(t, readAll(t, broker.Addrs, topic, 5)))
}

// The topic takes less than the producer believes.
func TestARefusedBatchHarmsOnlyTheOneToBlame(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic, other := broker.Topic(t, "limit", 1), broker.Topic(t, "limit-other", 1)
	setLimit(t, broker, topic, "2000")
	config := kafka.PublisherConfig()
	config.Producer.Flush.MaxMessages = 5 // so that batches follow the one refused
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs, Sarama: config})

	var batch []watermilladapter.Outgoing
	for n := range 40 {
		for _, key := range []string{"a", "b"} {
			e := event(topic, key, n)
			e.Message.Payload = fmt.Appendf(nil, "%d %s", n, bytes.Repeat([]byte("x"), 100))
			if key == "a" && n == 20 {
				e.Message.Payload = bytes.Repeat([]byte("x"), 3000)
			}
			batch = append(batch, e)
		}
		batch = append(batch, event(other, "c", n))
	}
	errs := publisher.PublishBatch(t.Context(), batch)
	for i, err := range errs {
		n, key := i/3, []string{"a", "b", "c"}[i%3]
		switch {
		case key == "a" && n == 20:
			assert.True(t, kafka.IsPermanent(err), "%v", err)
		case key == "a" && n > 20:
			var behind *kafka.BehindError
			assert.ErrorAs(t, err, &behind, "%d", n)
		default:
			assert.NoError(t, err, "%s %d", key, n)
		}
	}
	require.NoError(t, publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{event(topic, "end", 0)})[0])

	numbers := map[string][]int{}
	seen := 0
	for _, topic := range []string{topic, other} {
		for key, list := range numbersOf(t, readUntilEnd(t, broker.Addrs, topic)) {
			for _, n := range list {
				seen++
				if k := len(numbers[key]); n >= k {
					require.Equal(t, k, n, "first delivery of %s", key)
					numbers[key] = append(numbers[key], n)
				}
			}
		}
	}
	t.Logf("%d records", seen)
	assert.Len(t, numbers["a"], 20)
	assert.Len(t, numbers["b"], 40)
	assert.Len(t, numbers["c"], 40)
}

func setLimit(t *testing.T, broker testenv.Broker, topic, limit string) {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(broker.Addrs, kafka.SubscriberConfig())
	require.NoError(t, err)
	defer func() { assert.NoError(t, admin.Close()) }()
	require.NoError(t, admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"max.message.bytes": &limit}, false))
}

// readUntilEnd reads all that a topic has now.
func readUntilEnd(t *testing.T, brokers []string, topic string) []*sarama.ConsumerMessage {
	t.Helper()
	client, err := sarama.NewClient(brokers, kafka.SubscriberConfig())
	require.NoError(t, err)
	defer client.Close()
	partitions, err := client.Partitions(topic)
	require.NoError(t, err)
	n := 0
	for _, partition := range partitions {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		require.NoError(t, err)
		n += int(end)
	}
	return readAll(t, brokers, topic, n)
}

func TestATopicThatIsInvalidHarmsNoOther(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "valid", 1)
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs})
	var batch []watermilladapter.Outgoing
	for n := range 100 {
		batch = append(batch, event(topic, "a", n), event("in valid", "b", n))
	}
	for i, err := range publisher.PublishBatch(t.Context(), batch) {
		if i%2 == 0 {
			assert.NoError(t, err, "%d", i)
		} else {
			assert.Error(t, err, "%d", i)
		}
	}
}

func TestAPublisherThatIsClosed(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "closed", 1)
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs})
	require.NoError(t, publisher.Publish(topic, newMessage([]byte("x"), nil)))
	require.NoError(t, publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{event(topic, "a", 0)})[0])
	require.NoError(t, publisher.Close())
	require.NoError(t, publisher.Close())
	require.ErrorIs(t, publisher.Publish(topic, newMessage([]byte("x"), nil)), kafka.ErrClosed)
	require.ErrorIs(t, publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{event(topic, "a", 1)})[0], kafka.ErrClosed)
}

func TestTheContextEndsInAnOutage(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "context", 1)
	net := &network{}
	config := kafka.PublisherConfig()
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, net
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs, Sarama: config})
	require.NoError(t, publisher.PublishBatch(t.Context(), []watermilladapter.Outgoing{event(topic, "a", 0)})[0])

	// It ends when the request is on its way into the void.
	ctx, cancel := context.WithCancelCause(t.Context())
	net.onSwallow = func() { cancel(errOwn) }
	net.mute()
	errs := publisher.PublishBatch(ctx, []watermilladapter.Outgoing{event(topic, "a", 1), event(topic, "a", 2)})
	for _, err := range errs {
		require.ErrorIs(t, err, errOwn)
		assert.True(t, kafka.IsOutage(err), "%v", err)
	}
	// Likewise while it connects.
	errs = publisher.PublishBatch(ctx, []watermilladapter.Outgoing{event(topic, "a", 1)})
	require.ErrorIs(t, errs[0], errOwn)

	net.unmute()
	for i := 1; i <= 2; i++ {
		again := []watermilladapter.Outgoing{event(topic, "a", i)}
		require.Eventually(t, func() bool { return publisher.PublishBatch(t.Context(), again)[0] == nil }, patience, 1)
	}
	assert.Equal(t, map[string][]int{"a": {0, 1, 2}}, numbersOf(t, readAll(t, broker.Addrs, topic, 3)))
}
