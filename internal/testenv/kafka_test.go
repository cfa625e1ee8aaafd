package testenv_test

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestTopic(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)

	var topic string
	t.Run("use", func(t *testing.T) {
		topic = broker.Topic(t, "orders", 3)
		assert.NotEqual(t, topic, broker.Topic(t, "orders", 1))

		config := sarama.NewConfig()
		config.Producer.Return.Successes = true
		config.Producer.Retry.Max = 0 // it must work at once
		producer, err := sarama.NewSyncProducer(broker.Addrs, config)
		require.NoError(t, err)
		defer producer.Close()
		for range 20 {
			partition, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")})
			require.NoError(t, err)
			assert.Less(t, partition, int32(3))
		}
	})

	client, err := sarama.NewClient(broker.Addrs, sarama.NewConfig())
	require.NoError(t, err)
	defer client.Close()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, client.RefreshMetadata())
		topics, err := client.Topics()
		require.NoError(c, err)
		assert.NotContains(c, topics, topic, "still there after its test")
	}, 10*time.Second, 20*time.Millisecond)
}
