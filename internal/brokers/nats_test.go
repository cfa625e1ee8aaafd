package brokers_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	natsadapter "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const natsProgram = "/usr/sbin/nats-server"

// TestNATS: package nats of the adapter with JetStream, which its package jetstream (beta) recommends for production.
//
// The order is kept by a durable consumer with MaxAckPending 1: a message that failed, or whose ack was lost, comes again before the next one. More than one would
// be delivered ahead of it.
func TestNATS(t *testing.T) {
	t.Parallel()
	s, url := newNATS(t)
	s.run(t)

	options := []nats.Option{
		// By default a client gives up after two minutes.
		nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		// By default what is published while the server is away is kept in memory, and told to have failed.
		nats.ReconnectBufSize(-1),
	}
	admin, err := nats.Connect(url, options...)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	js, err := admin.JetStream()
	require.NoError(t, err)
	// The adapter makes both if they are not there, but then its Close removes the consumer, which would get all messages again.
	const durable = "stock"
	_, err = js.AddStream(&nats.StreamConfig{Name: topic, Subjects: []string{topic}, Storage: nats.FileStorage})
	require.NoError(t, err)
	_, err = js.AddConsumer(topic, &nats.ConsumerConfig{
		Durable: durable, DeliverSubject: "deliver." + durable, DeliverPolicy: nats.DeliverAllPolicy,
		AckPolicy: nats.AckExplicitPolicy, MaxAckPending: 1,
		AckWait: 3 * time.Second, // after a crash, the message on its way comes again after that
	})
	require.NoError(t, err)

	testChain(t, broker{
		server: s,
		publisher: func() (message.Publisher, error) {
			return natsadapter.NewPublisher(natsadapter.PublisherConfig{URL: url, NatsOptions: options, Marshaler: natsMarshaler{}}, watermill.NopLogger{})
		},
		subscriber: func() (message.Subscriber, error) {
			return natsadapter.NewSubscriber(natsadapter.SubscriberConfig{
				URL: url, NatsOptions: options, Unmarshaler: natsMarshaler{},
				JetStream: natsadapter.JetStreamConfig{
					DurablePrefix: durable,
					// Or the client acks by itself what the adapter left unanswered, when it closes or waited for too long.
					SubscribeOptions: []nats.SubOpt{nats.ManualAck()},
				},
			}, watermill.NopLogger{})
		},
		left: func(context.Context) (int, error) {
			info, err := js.ConsumerInfo(topic, durable)
			if err != nil {
				return 0, err
			}
			return int(info.NumPending) + info.NumAckPending, nil
		},
	})
	_, err = js.ConsumerInfo(topic, durable)
	assert.NoError(t, err, "the consumer is still there when the subscriber has closed")
}

// natsMarshaler puts all of a message into its data. The default one puts metadata into headers of NATS, which have no line breaks and
// no spaces around them (TestNATSHeaders).
type natsMarshaler = natsadapter.JSONMarshaler

// TestNATSHeaders: why the tests do not use the adapter's default marshaler.
func TestNATSHeaders(t *testing.T) {
	t.Parallel()
	s, url := newNATS(t)
	s.run(t)
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	sub, err := conn.SubscribeSync("headers")
	require.NoError(t, err)
	for name, m := range map[string]struct {
		marshaler natsadapter.MarshalerUnmarshaler
		want      string
	}{"default": {&natsadapter.NATSMarshaler{}, "two  lines"}, "ours": {natsMarshaler{}, " two\r\nlines "}} {
		msg, err := m.marshaler.Marshal("headers", &message.Message{UUID: "1", Metadata: message.Metadata{"own": " two\r\nlines "}})
		require.NoError(t, err)
		require.NoError(t, conn.PublishMsg(msg))
		msg, err = sub.NextMsg(time.Minute)
		require.NoError(t, err)
		got, err := m.marshaler.Unmarshal(msg)
		require.NoError(t, err)
		assert.Equal(t, m.want, got.Metadata.Get("own"), name)
	}
}

// newNATS returns a server with JetStream, and its address.
func newNATS(t *testing.T) (s *server, url string) {
	t.Helper()
	folder, port := t.TempDir(), freePort(t)
	path := program(t, natsProgram)
	url = "nats://" + address(port)
	return &server{
		name: "nats", folder: folder,
		command: func() *exec.Cmd {
			return exec.Command(path, "--addr", "127.0.0.1", "--port", strconv.Itoa(port), "--jetstream", "--store_dir", filepath.Join(folder, "data"))
		},
		ping: func(context.Context) error {
			conn, err := nats.Connect(url)
			if err != nil {
				return err
			}
			defer conn.Close()
			js, err := conn.JetStream()
			if err != nil {
				return err
			}
			_, err = js.AccountInfo()
			return err
		},
	}, url
}
