package kafka

import (
	"time"

	"github.com/IBM/sarama"
)

// How long Publish takes at most to fail with the settings of
// PublisherConfig when no broker can be reached.
const (
	// RefusedTimeout is the time if connections are refused. Measured are 1 to 2 seconds.
	RefusedTimeout = 5 * time.Second
	// SilentTimeout is the time if neither answers nor refusals come back. Each of
	// the three attempts may dial, wait for an answer and then ask for the
	// leader, which asks one broker more than Metadata.Timeout allows for.
	SilentTimeout = (1 + sendRetries) * (2*(dialTimeout+answerTimeout) + metadataTimeout + pause)
)

const (
	clientID = "gormoutbox"

	dialTimeout     = 4 * time.Second
	acksTimeout     = 5 * time.Second
	answerTimeout   = 8 * time.Second // more than acksTimeout, or the client gives up first
	metadataTimeout = 4 * time.Second
	joinReserve     = 5 * time.Second

	pause           = 250 * time.Millisecond
	sendRetries     = 2
	metadataRetries = 3
)

// version is what sarama covers in full. Kafka 4 speaks the protocols from 2.1 on.
var version = sarama.V2_8_0_0

// PublisherConfig returns settings for a synchronous producer that loses and
// reorders nothing and does not wait for ever; the package comment explains each.
// It is a new value each time, to be changed as need be.
func PublisherConfig() *sarama.Config {
	c := baseConfig()

	// An event that is settled in the outbox must not be lost with one broker.
	c.Producer.RequiredAcks = sarama.WaitForAll
	// Retries within the producer make no duplicates; needs a single open request.
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1

	// The synchronous producer reads both channels.
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true

	// The relay tries again for ever, so the producer needs to bridge no more
	// than a change of the leader.
	c.Producer.Timeout = acksTimeout
	c.Producer.Retry.Max = sendRetries
	c.Producer.Retry.Backoff = pause
	c.Producer.Transaction.Retry.Max = sendRetries // for the producer's id, without transactions too

	c.Producer.Compression = sarama.CompressionNone
	c.Producer.Partitioner = sarama.NewHashPartitioner
	return c
}

// SubscriberConfig returns settings for a consumer group that misses nothing;
// the package comment explains each. It is a new value each time, to be changed as
// need be.
func SubscriberConfig() *sarama.Config {
	c := baseConfig()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Return.Errors = true

	// The answer to a member that joins comes when the last one has finished its
	// handler, up to this late. sarama waits no longer than ReadTimeout.
	c.Net.ReadTimeout = c.Consumer.Group.Rebalance.Timeout + joinReserve
	return c
}

func baseConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID = clientID
	c.Version = version

	c.Net.DialTimeout = dialTimeout
	c.Net.ReadTimeout = answerTimeout
	c.Net.WriteTimeout = answerTimeout
	c.Metadata.Retry.Max = metadataRetries
	c.Metadata.Retry.Backoff = pause
	c.Metadata.Timeout = metadataTimeout
	return c
}
