package kafka_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// clock gives records the time of a clock that may be ahead, in place of this process's.
type clock struct{ ahead atomic.Int64 }

// OnSend implements sarama.ProducerInterceptor.
func (c *clock) OnSend(msg *sarama.ProducerMessage) {
	msg.Timestamp = time.Now().Add(time.Duration(c.ahead.Load()))
}

// TestAClockThatIsAhead: brokers refuse what comes from the future. That says nothing about a message, so none may be given up for it.
func TestAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "clock", 1)
	c := &clock{}
	config := kafka.PublisherConfig()
	config.Producer.Interceptors = []sarama.ProducerInterceptor{c}
	publisher := newPublisher(t, kafka.PublisherOptions{Brokers: broker.Addrs, Sarama: config})
	batch := []watermilladapter.Outgoing{event(topic, "a", 0), event(topic, "b", 0), event(topic, "a", 1)}

	c.ahead.Store(int64(3 * time.Hour))
	errs := publisher.PublishBatch(t.Context(), batch)
	require.ErrorIs(t, errs[0], sarama.ErrInvalidTimestamp)
	for _, err := range append(errs, publisher.Publish(topic, batch[0].Message)) {
		require.Error(t, err)
		assert.False(t, kafka.IsPermanent(err), "%v", err)
	}
	c.ahead.Store(int64(-30 * 24 * time.Hour))
	for _, err := range publisher.PublishBatch(t.Context(), batch) {
		require.NoError(t, err, "a clock that is behind")
	}
	assert.Equal(t, map[string][]int{"a": {0, 1}, "b": {0}}, numbersOf(t, readUntilEnd(t, broker.Addrs, topic)))
}
