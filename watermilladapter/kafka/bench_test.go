package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// BenchmarkPublishBatch compares PublishBatch with sarama alone, by turns.
func BenchmarkPublishBatch(b *testing.B) {
	broker := testenv.Kafka(b)
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			topic := broker.Topic(b, "bench", 8)
			publisher := newPublisher(b, kafka.PublisherOptions{Brokers: broker.Addrs})
			bare, err := sarama.NewSyncProducer(broker.Addrs, kafka.PublisherConfig())
			require.NoError(b, err)
			defer bare.Close()

			const size = 500
			n := 0
			next := func() (batch []watermilladapter.Outgoing) {
				for range size {
					n++
					batch = append(batch, watermilladapter.Outgoing{Topic: topic, Message: newMessage(make([]byte, 256), map[string]string{
						gormoutbox.HeaderAggregateType: "order", gormoutbox.HeaderAggregateID: fmt.Sprint(n % keys),
					})})
				}
				return batch
			}
			var ours, theirs time.Duration
			for i := -1; b.Loop(); i++ { // the first connects
				batch := next()
				begin := time.Now()
				for _, err := range publisher.PublishBatch(b.Context(), batch) {
					require.NoError(b, err)
				}
				took := time.Since(begin)

				batch = next()
				begin = time.Now()
				records := make([]*sarama.ProducerMessage, size)
				for i, out := range batch { // what a caller cannot do without
					records[i], err = kafka.Marshaler{}.Marshal(out.Topic, out.Message)
					require.NoError(b, err)
				}
				require.NoError(b, bare.SendMessages(records))
				if i >= 0 {
					ours, theirs = ours+took, theirs+time.Since(begin)
				}
			}
			if theirs > 0 {
				count := float64(size * (b.N - 1))
				b.ReportMetric(count/ours.Seconds(), "ours/s")
				b.ReportMetric(count/theirs.Seconds(), "sarama/s")
				b.ReportMetric(ours.Seconds()/theirs.Seconds(), "ratio")
			}
		})
	}
}
