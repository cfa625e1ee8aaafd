package relaytest_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/relaytest"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// TestGoChannel is about a publisher without batches, which keeps an order only if Publish waits for the subscribers.
func TestGoChannel(t *testing.T) {
	t.Parallel()
	relaytest.TestPublisher(t, relaytest.PublisherSpec{
		New: func(testing.TB) (message.Publisher, message.Subscriber) {
			g := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
			return g, g
		},
	})
}

// TestMyPublisher is the example's.
func TestMyPublisher(t *testing.T) {
	t.Parallel()
	relaytest.TestPublisher(t, mySpec())
}

// TestKafka is about the publisher of package kafka in front of a real broker, by batches and without, with messages that
// itself refuses and such that the broker refuses, and with ways to the broker that refuse and that swallow.
func TestKafka(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		single bool
		limit  string
		hurry  time.Duration // divides the publisher's times
		fail   func(*network) (mend func())
	}{
		"batches, refused by itself, connections break":     {fail: (*network).refuse},
		"batches, refused by the broker, connections stall": {limit: "200000", hurry: 4, fail: (*network).stall},
		"one by one": {single: true, fail: (*network).refuse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := testenv.Kafka(t)
			way := &network{}
			relaytest.TestPublisher(t, relaytest.PublisherSpec{
				New: func(t testing.TB) (message.Publisher, message.Subscriber) {
					publisher := kafkaPublisher(t, broker, way, test.hurry)
					subscriber, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
						Brokers: broker.Addrs, Unmarshaler: kafka.Marshaler{}, OverwriteSaramaConfig: kafka.SubscriberConfig(),
					}, watermill.NopLogger{})
					require.NoError(t, err)
					if test.single {
						return struct{ message.Publisher }{publisher}, subscriber
					}
					return publisher, subscriber
				},
				Topic: func(t testing.TB) string {
					topic := kafkaTopic(t, broker)
					if test.limit != "" {
						limitTopic(t, broker, topic, test.limit)
					}
					return topic
				},
				Refuse: func(msg *message.Message) {
					size := kafka.PublisherConfig().Producer.MaxMessageBytes
					if test.limit != "" {
						size /= 2 // fits the publisher, and not the topic
					}
					msg.Payload = bytes.Repeat([]byte("x"), size)
				},
				Fail:     func(testing.TB) func() { return test.fail(way) },
				Patience: 30 * time.Second,
			})
		})
	}
}

func kafkaPublisher(t testing.TB, broker testenv.Broker, way *network, hurry time.Duration) *kafka.Publisher {
	t.Helper()
	config := kafka.PublisherConfig()
	for _, d := range []*time.Duration{
		&config.Net.DialTimeout, &config.Net.ReadTimeout, &config.Net.WriteTimeout, &config.Producer.Timeout,
		&config.Producer.Retry.Backoff, &config.Metadata.Timeout, &config.Metadata.Retry.Backoff,
	} {
		*d /= max(hurry, 1)
	}
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, way
	publisher, err := kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: broker.Addrs, Sarama: config, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return publisher
}

// kafkaTopic makes a topic and waits until the leaders of its partitions know that they are.
func kafkaTopic(t testing.TB, broker testenv.Broker) string {
	t.Helper()
	const partitions = 6
	topic := broker.Topic(t, "conformance", partitions)
	client, err := sarama.NewClient(broker.Addrs, kafka.SubscriberConfig())
	require.NoError(t, err)
	defer client.Close()
	for partition := range int32(partitions) {
		require.Eventually(t, func() bool {
			_, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
			return err == nil
		}, time.Minute, 10*time.Millisecond)
	}
	return topic
}

func limitTopic(t testing.TB, broker testenv.Broker, topic, limit string) {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(broker.Addrs, kafka.SubscriberConfig())
	require.NoError(t, err)
	defer func() { assert.NoError(t, admin.Close()) }()
	require.NoError(t, admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"max.message.bytes": &limit}, false))
}

// network is a dialer whose network can fail.
type network struct {
	mu               sync.Mutex
	refuses, swallow bool
	conns            []net.Conn
}

var errRefused = errors.New("connection refused")

// Dial implements proxy.Dialer.
func (n *network) Dial(protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses {
		return nil, errRefused
	}
	conn, err := net.DialTimeout(protocol, address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	n.conns = append(n.conns, conn)
	return &wire{Conn: conn, network: n}, nil
}

// refuse breaks all connections and refuses new ones.
func (n *network) refuse() (mend func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = true
	n.hangUp()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.refuses = false
	}
}

// stall swallows what is written, until it is mended by breaking the connections.
func (n *network) stall() (mend func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.swallow = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.swallow = false
		n.hangUp()
	}
}

func (n *network) hangUp() {
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func (n *network) swallows() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.swallow
}

type wire struct {
	net.Conn
	network *network
}

// Write implements net.Conn.
func (w *wire) Write(b []byte) (int, error) {
	if w.network.swallows() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}
