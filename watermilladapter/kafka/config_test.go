package kafka_test

import (
	"testing"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

func TestPublisherConfig(t *testing.T) {
	t.Parallel()
	c := kafka.PublisherConfig()
	require.NoError(t, c.Validate())
	assert.Equal(t, sarama.WaitForAll, c.Producer.RequiredAcks)
	assert.True(t, c.Producer.Idempotent)
	assert.Equal(t, 1, c.Net.MaxOpenRequests)
	assert.True(t, c.Producer.Return.Successes)
	assert.True(t, c.Producer.Return.Errors)
	assert.True(t, c.Version.IsAtLeast(sarama.V2_1_0_0), "Kafka 4 has dropped what is older")
	assert.Less(t, c.Producer.Timeout, c.Net.ReadTimeout, "the client must not give up before the broker does")
	assert.Positive(t, c.Metadata.Timeout)
}

func TestSubscriberConfig(t *testing.T) {
	t.Parallel()
	c := kafka.SubscriberConfig()
	require.NoError(t, c.Validate())
	assert.Equal(t, sarama.OffsetOldest, c.Consumer.Offsets.Initial)
	assert.True(t, c.Consumer.Return.Errors)
	assert.True(t, c.Version.IsAtLeast(sarama.V2_1_0_0))
	assert.Greater(t, c.Net.ReadTimeout, c.Consumer.Group.Rebalance.Timeout, "the answer to a join may take that long")
}

func TestConfigsAreNotShared(t *testing.T) {
	t.Parallel()
	kafka.PublisherConfig().Producer.Idempotent = false
	kafka.SubscriberConfig().Consumer.Offsets.Initial = sarama.OffsetNewest
	assert.True(t, kafka.PublisherConfig().Producer.Idempotent)
	assert.Equal(t, sarama.OffsetOldest, kafka.SubscriberConfig().Consumer.Offsets.Initial)
}

// The table of the package comment compares with these. If watermill-kafka
// changes one, the table is wrong.
func TestDefaultsOfWatermillKafka(t *testing.T) {
	t.Parallel()
	p := wkafka.DefaultSaramaSyncPublisherConfig()
	assert.Equal(t, sarama.WaitForLocal, p.Producer.RequiredAcks)
	assert.False(t, p.Producer.Idempotent)
	assert.Equal(t, 5, p.Net.MaxOpenRequests)
	assert.Equal(t, sarama.V1_0_0_0, p.Version)
	assert.True(t, p.Producer.Return.Errors)
	assert.True(t, p.Producer.Return.Successes)
	assert.Equal(t, "10s", p.Producer.Timeout.String())
	assert.Equal(t, 10, p.Producer.Retry.Max)
	assert.Equal(t, "100ms", p.Producer.Retry.Backoff.String())
	assert.Equal(t, "30s", p.Net.DialTimeout.String())
	assert.Equal(t, "30s", p.Net.ReadTimeout.String())
	assert.Equal(t, "30s", p.Net.WriteTimeout.String())
	assert.Equal(t, 3, p.Metadata.Retry.Max)
	assert.Equal(t, "2s", p.Metadata.Retry.Backoff.String())
	assert.Zero(t, p.Metadata.Timeout)
	assert.Equal(t, sarama.CompressionNone, p.Producer.Compression)

	s := wkafka.DefaultSaramaSubscriberConfig()
	assert.Equal(t, sarama.OffsetNewest, s.Consumer.Offsets.Initial)
	assert.Equal(t, sarama.V1_0_0_0, s.Version)
	assert.True(t, s.Consumer.Return.Errors)
	assert.Equal(t, "30s", s.Net.DialTimeout.String())
	assert.Equal(t, "250ms", s.Metadata.Retry.Backoff.String())
	assert.Zero(t, s.Metadata.Timeout)
}
