package brokers_test

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

const redisProgram = "/usr/bin/redis-server"

// TestRedis: durable by an append-only file that is written to the disk before each answer.
//
// The order is kept by one consumer in the group, under a name that stays the same. A failed message is handled again before the next one is read. When the
// connection breaks while a read is on its way, its answer is lost with it: the entry is pending for the consumer, and the adapter, which reads only what is new,
// would come back to it after MaxIdleTime, behind all others. So the subscriber ends with the connection, and the new one first takes what is pending.
func TestRedis(t *testing.T) {
	t.Parallel()
	folder, port := t.TempDir(), freePort(t)
	path := program(t, redisProgram)
	client := func() *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: address(port),
			// The client would repeat a read whose answer was lost, and get the entry behind.
			MaxRetries: -1,
		})
	}
	admin := client()
	t.Cleanup(func() { assert.NoError(t, admin.Close()) })
	s := &server{
		name: "redis", folder: folder,
		command: func() *exec.Cmd {
			return exec.Command(path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", folder, "--save", "",
				"--appendonly", "yes", "--appendfsync", "always")
		},
		// Until it has read its file it answers with an error.
		ping: func(ctx context.Context) error { return admin.Ping(ctx).Err() },
	}
	s.run(t)
	const group = "stock"
	testChain(t, broker{
		server: s,
		publisher: func() (message.Publisher, error) {
			return redisstream.NewPublisher(redisstream.PublisherConfig{Client: client()}, watermill.NopLogger{})
		},
		subscriber: func() (message.Subscriber, error) {
			return redisstream.NewSubscriber(redisstream.SubscriberConfig{
				Client: client(), ConsumerGroup: group, Consumer: "one", OldestId: "0",
				ShouldStopOnReadErrors: func(error) bool { return true },
				// At its start all that is pending is its own, and comes first. Later there is nothing to take from others.
				MaxIdleTime: time.Millisecond, ClaimInterval: time.Hour,
				// Or a subscriber of an empty stream can't be closed.
				DisableIndefiniteInitialBlock: true,
			}, watermill.NopLogger{})
		},
		left: func(ctx context.Context) (int, error) {
			groups, err := admin.XInfoGroups(ctx, topic).Result()
			if err != nil || len(groups) != 1 {
				return 0, fmt.Errorf("%d groups: %w", len(groups), err)
			}
			return int(groups[0].Pending + groups[0].Lag), nil
		},
	})
}
