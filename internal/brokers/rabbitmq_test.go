package brokers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	amqpadapter "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

const rabbitProgram = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// TestRabbitMQ: a durable queue, persistent messages, publisher confirms.
//
// The order is kept by one consumer with a prefetch count of 1: a message that comes back, since it failed or was not acked, takes its old place at the head of the queue.
// With more, those behind it are already with the consumer.
func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	path := program(t, rabbitProgram)
	s, url := newRabbit(t, path)
	s.run(t)

	config := amqpadapter.NewDurableQueueConfig(url) // prefetch count 1, persistent messages
	config.Publish.ConfirmDelivery = true
	// A pool of channels loses one for each that can't be opened again, until Publish waits forever.
	config.Publish.ChannelPoolSize = 0

	// By default it tries again after pauses of up to a minute.
	config.Connection.Reconnect = amqpadapter.DefaultReconnectConfig()
	config.Connection.Reconnect.BackoffMaxInterval = time.Second

	// RabbitMQ confirms what no queue takes: the queue must be there before anything is published.
	first, err := amqpadapter.NewSubscriber(config, watermill.NopLogger{})
	require.NoError(t, err)
	require.NoError(t, first.SubscribeInitialize(topic))
	require.NoError(t, first.Close())

	testChain(t, broker{
		server:     s,
		publisher:  func() (message.Publisher, error) { return amqpadapter.NewPublisher(config, watermill.NopLogger{}) },
		subscriber: func() (message.Subscriber, error) { return amqpadapter.NewSubscriber(config, watermill.NopLogger{}) },
		left: func(context.Context) (n int, err error) {
			err = onChannel(url, func(ch *amqp091.Channel) error {
				q, err := ch.QueueDeclarePassive(topic, true, false, false, false, nil)
				n = q.Messages
				return err
			})
			return n, err
		},
		added:  []string{amqpadapter.MetadataRedeliveredKey},
		ghosts: true,
	})
}

// newRabbit returns a node of RabbitMQ, and its address. Its epmd, by which nodes find each other, is one of its own.
func newRabbit(t *testing.T, path string) (s *server, url string) {
	t.Helper()
	folder := t.TempDir()
	port, distribution, names := freePort(t), freePort(t), freePort(t)
	epmd, err := exec.LookPath("epmd")
	require.NoError(t, err)
	(&server{
		name: "epmd", folder: folder,
		command: func() *exec.Cmd {
			return exec.Command(epmd, "-address", "127.0.0.1", "-port", fmt.Sprint(names))
		},
		ping: func(ctx context.Context) error {
			return exec.CommandContext(ctx, epmd, "-port", fmt.Sprint(names), "-names").Run()
		},
	}).run(t)

	url = "amqp://guest:guest@" + address(port) + "/"
	return &server{
		name: "rabbitmq", folder: folder,
		command: func() *exec.Cmd {
			cmd := exec.Command(path)
			in := func(name string) string { return filepath.Join(folder, name) }
			cmd.Env = append(os.Environ(),
				"HOME="+folder, // for the cookie
				"ERL_EPMD_PORT="+fmt.Sprint(names), "ERL_EPMD_ADDRESS=127.0.0.1",
				"RABBITMQ_NODENAME=outbox-"+uuid.NewSHA1(uuid.Nil, []byte(folder)).String()+"@localhost",
				"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT="+fmt.Sprint(port), "RABBITMQ_DIST_PORT="+fmt.Sprint(distribution),
				"RABBITMQ_MNESIA_BASE="+in("data"), "RABBITMQ_LOG_BASE="+in("logs"), "RABBITMQ_PID_FILE="+in("pid"),
				"RABBITMQ_CONFIG_FILE="+in("none"), "RABBITMQ_CONF_ENV_FILE="+in("none"), "RABBITMQ_ENABLED_PLUGINS_FILE="+in("none"),
				// One process instead of a shell that waits for it: a signal goes to the server.
				"RABBITMQ_ALLOW_INPUT=1", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1}",
			)
			return cmd
		},
		ping: func(context.Context) error { return onChannel(url, func(*amqp091.Channel) error { return nil }) },
	}, url
}

// onChannel runs fn on a connection of its own.
func onChannel(url string, fn func(*amqp091.Channel) error) error {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // Nothing hangs on it.
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return fn(ch)
}
