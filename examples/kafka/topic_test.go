package kafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// topicReader looks at a topic with nothing but sarama in between.
type topicReader struct {
	name   string
	client sarama.Client
}

func newTopicReader(t *testing.T, brokers []string, name string) *topicReader {
	t.Helper()
	config := sarama.NewConfig()
	config.ClientID = "crash-test"
	config.Version = sarama.V2_8_0_0
	client, err := sarama.NewClient(brokers, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return &topicReader{name, client}
}

// size is the number of messages on the topic, as far as can be told.
func (r *topicReader) size() int64 {
	partitions, err := r.client.Partitions(r.name)
	if err != nil {
		return 0
	}
	var n int64
	for _, p := range partitions {
		if end, err := r.client.GetOffset(r.name, p, sarama.OffsetNewest); err == nil {
			n += end
		}
	}
	return n
}

// read returns the whole topic, each partition in order.
func (r *topicReader) read(t *testing.T) []*sarama.ConsumerMessage {
	t.Helper()
	consumer, err := sarama.NewConsumerFromClient(r.client)
	require.NoError(t, err)
	defer func() { assert.NoError(t, consumer.Close()) }()
	partitions, err := consumer.Partitions(r.name)
	require.NoError(t, err)
	var all []*sarama.ConsumerMessage
	timeout := time.After(30 * time.Second)
	for _, p := range partitions {
		end, err := r.client.GetOffset(r.name, p, sarama.OffsetNewest)
		require.NoError(t, err)
		claim, err := consumer.ConsumePartition(r.name, p, sarama.OffsetOldest)
		require.NoError(t, err)
		for next := int64(0); next < end; {
			select {
			case record := <-claim.Messages():
				all = append(all, record)
				next = record.Offset + 1
			case <-timeout:
				require.Fail(t, "the topic can't be read to its end")
			}
		}
		require.NoError(t, claim.Close())
	}
	return all
}

func (r *topicReader) exists(t *testing.T, name string) bool {
	t.Helper()
	require.NoError(t, r.client.RefreshMetadata())
	topics, err := r.client.Topics()
	require.NoError(t, err)
	return slices.Contains(topics, name)
}

func header(record *sarama.ConsumerMessage, name string) string {
	for _, h := range record.Headers {
		if string(h.Key) == name {
			return string(h.Value)
		}
	}
	return ""
}
