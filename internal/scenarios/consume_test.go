package scenarios_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay/relaytest"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// consume tells the ledger all that is in the topic now.
func (b *broker) consume(t *testing.T, l *ledger) {
	t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // closing waits for it
	client, err := sarama.NewClient([]string{b.address}, config)
	require.NoError(t, err)
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	for p := range int32(partitions) {
		newest, err := client.GetOffset(b.topic, p, sarama.OffsetNewest)
		require.NoError(t, err)
		if newest > 0 {
			claim, err := consumer.ConsumePartition(b.topic, p, sarama.OffsetOldest)
			require.NoError(t, err)
			read(t, claim, newest, l)
			require.NoError(t, claim.Close())
		}
	}
}

// read reads a partition up to an offset.
func read(t *testing.T, claim sarama.PartitionConsumer, end int64, l *ledger) {
	t.Helper()
	idle := time.NewTimer(patience)
	defer idle.Stop()
	for offset := int64(0); offset < end; {
		select {
		case record := <-claim.Messages():
			offset = record.Offset + 1
			msg, err := kafka.Marshaler{}.Unmarshal(record)
			require.NoError(t, err)
			d := relaytest.Delivery{
				ID: msg.UUID, AggregateType: msg.Metadata.Get(gormoutbox.HeaderAggregateType), AggregateID: msg.Metadata.Get(gormoutbox.HeaderAggregateID),
				Stream: strconv.Itoa(int(record.Partition)), At: record.Timestamp,
			}
			require.Equal(t, d.AggregateID, string(record.Key))
			l.Delivered(d)
			idle.Reset(patience)
		case <-idle.C:
			require.Fail(t, "records don't come", "%d of %d came", offset, end)
		}
	}
}
