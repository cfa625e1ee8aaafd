package kafka_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// closedPort is an address on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// network is a dialer whose network can fail.
type network struct {
	mu      sync.Mutex
	refused bool
	silent  bool
	conns   []net.Conn

	onSwallow func() // set before mute
}

func (n *network) Dial(protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused {
		return nil, errRefused
	}
	conn, err := net.Dial(protocol, address)
	if err != nil {
		return nil, err
	}
	n.conns = append(n.conns, conn)
	return &wire{Conn: conn, network: n}, nil
}

var errRefused = errors.New("connection refused")

// refuse breaks all connections and refuses new ones.
func (n *network) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = true
	for _, c := range n.conns {
		c.Close()
	}
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = false
}

// mute swallows what is written from now on, so that no answers come, on old
// connections and on new ones: the broker's machine answers, but not the broker.
func (n *network) mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = true
}

// unmute breaks the connections whose requests were swallowed.
func (n *network) unmute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = false
	for _, c := range n.conns {
		c.Close()
	}
}

func (n *network) muted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

type wire struct {
	net.Conn
	network *network
}

func (w *wire) Write(b []byte) (int, error) {
	if w.network.muted() {
		if f := w.network.onSwallow; f != nil {
			f()
		}
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func TestDeadBrokerAtTheStart(t *testing.T) {
	t.Parallel()
	publisher, err := kafka.NewPublisher([]string{closedPort(t), closedPort(t), closedPort(t)}, silent)
	require.NoError(t, err, "a service can start without Kafka")
	defer func() { assert.NoError(t, publisher.Close()) }()
	begin := time.Now()
	err = publisher.Publish("topic", newMessage([]byte("x"), nil))
	require.ErrorIs(t, err, sarama.ErrOutOfBrokers)
	assert.True(t, kafka.IsOutage(err))
	took := time.Since(begin)
	t.Logf("Publish, refused: %s", took)
	assert.Less(t, took, kafka.RefusedTimeout)
}

func TestDeadBrokerAtTheStartOfASubscriber(t *testing.T) {
	t.Parallel()
	subscriber, err := kafka.NewSubscriber([]string{closedPort(t)}, "group", silent)
	require.NoError(t, err)
	defer func() { assert.NoError(t, subscriber.Close()) }()
	_, err = subscriber.Subscribe(t.Context(), "topic")
	require.ErrorIs(t, err, sarama.ErrOutOfBrokers)
}

func TestBrokerThatRefuses(t *testing.T) {
	t.Parallel()
	net := &network{}
	publish := publishThrough(t, net, kafka.PublisherConfig())
	net.refuse()
	for range 3 {
		took, err := publish()
		require.Error(t, err)
		t.Logf("Publish: %s: %v", took, err)
		assert.Less(t, took, kafka.RefusedTimeout)
	}
	net.mend()
	for deadline := time.Now().Add(patience); ; {
		took, err := publish()
		if err == nil {
			break
		}
		t.Logf("Publish, mended: %s: %v", took, err)
		require.True(t, time.Now().Before(deadline), "it does not recover")
		<-time.After(time.Second) // the pace of a caller that tries again
	}
}

// The times are a tenth of those of PublisherConfig, and so must be the bound.
func TestBrokerThatIsSilent(t *testing.T) {
	t.Parallel()
	const scale = 10
	config := kafka.PublisherConfig()
	for _, d := range []*time.Duration{
		&config.Net.DialTimeout, &config.Net.ReadTimeout, &config.Net.WriteTimeout, &config.Producer.Timeout,
		&config.Producer.Retry.Backoff, &config.Metadata.Timeout, &config.Metadata.Retry.Backoff,
	} {
		*d /= scale
	}
	net := &network{}
	publish := publishThrough(t, net, config)
	net.mute()
	for range 3 {
		took, err := publish()
		require.Error(t, err)
		t.Logf("Publish: %s: %v", took, err)
		assert.Less(t, took, kafka.SilentTimeout/scale)
	}
}

// publishThrough returns a function that publishes a message through net and
// has done so once.
func publishThrough(t *testing.T, net *network, config *sarama.Config) func() (time.Duration, error) {
	t.Helper()
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "dead", 1)
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, net
	publisher, err := kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: broker.Addrs, Logger: silent, Sarama: config})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, publisher.Close()) })
	require.NoError(t, publisher.Publish(topic, newMessage([]byte("x"), nil)))
	return func() (time.Duration, error) {
		begin := time.Now()
		err := publisher.Publish(topic, newMessage([]byte("x"), nil))
		return time.Since(begin), err
	}
}
