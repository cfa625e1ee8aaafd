package kafka_test

import (
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

func TestMistakesInOptions(t *testing.T) {
	t.Parallel()
	config := kafka.PublisherConfig()
	config.Producer.Idempotent = false
	config.Producer.Transaction.ID = "x"
	config.Producer.Return.Successes = false
	config.Producer.Return.Errors = false
	config.Metadata.SingleFlight = false
	config.Producer.MaxMessageBytes = 0
	_, err := kafka.NewPublisherWith(kafka.PublisherOptions{Sarama: config, Partitioner: 7})
	assert.Equal(t, []string{
		"brokers", "Partitioner", "Sarama.Producer.Idempotent", "Sarama.Producer.Transaction.ID",
		"Sarama.Producer.Return.Successes", "Sarama.Producer.Return.Errors", "Sarama.Metadata.SingleFlight", "Sarama",
	}, fieldsOf(t, err))
}

func TestOptionsAreNotChanged(t *testing.T) {
	t.Parallel()
	config := kafka.PublisherConfig()
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: []string{closedPort(t)}, Sarama: config, Partitioner: kafka.PartitionerJava})
	require.Error(t, publisher.Publish("topic", newMessage([]byte("x"), nil)))
	assert.False(t, config.Net.Proxy.Enable)
	const most = 1<<31 - 1
	assert.Equal(t, partition(t, sarama.NewHashPartitioner, "foobar", most), partition(t, config.Producer.Partitioner, "foobar", most))
}

// The hashes are those of the Java client's own tests.
var javaHashes = map[string]int32{
	"21":                         -973932308,
	"foobar":                     -790332482,
	"a-little-bit-long-string":   -985981536,
	"a-little-bit-longer-string": -1486304829,
	"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
	"abc": 479470107,
}

func TestPartitionerJava(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	const partitions = 7
	topic := broker.Topic(t, "java", partitions)
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs, Partitioner: kafka.PartitionerJava})
	var batch []watermilladapter.Outgoing
	for key := range javaHashes {
		batch = append(batch, event(topic, key, 0))
	}
	for _, err := range publisher.PublishBatch(t.Context(), batch) {
		require.NoError(t, err)
	}
	for _, record := range readAll(t, broker.Addrs, topic, len(javaHashes)) {
		key := string(record.Key)
		assert.Equal(t, (javaHashes[key]&0x7fffffff)%partitions, record.Partition, key)
	}
	// The full hash, as far as a number of partitions shows it.
	const most = 1<<31 - 1
	for key, hash := range javaHashes {
		assert.Equal(t, (hash&0x7fffffff)%most, partition(t, sarama.NewMurmur2Partitioner, key, most), key)
	}
}

func partition(t *testing.T, constructor sarama.PartitionerConstructor, key string, n int32) int32 {
	t.Helper()
	p, err := constructor("topic").Partition(&sarama.ProducerMessage{Key: sarama.StringEncoder(key)}, n)
	require.NoError(t, err)
	return p
}
