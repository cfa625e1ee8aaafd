package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	drainEvents = 10_000
	drainKeys   = 1_000
)

var quiet = slog.New(slog.DiscardHandler)

// counter passes messages on and says when all have come.
type counter struct {
	next message.Publisher // nil drops them
	left atomic.Int64
	done chan struct{}
}

func newCounter(next message.Publisher, n int) *counter {
	c := &counter{next: next, done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *counter) Publish(topic string, messages ...*message.Message) error {
	if c.next != nil {
		if err := c.next.Publish(topic, messages...); err != nil {
			return err
		}
	}
	if c.left.Add(-int64(len(messages))) == 0 {
		close(c.done)
	}
	return nil
}

func (*counter) Close() error { return nil }

func outbox(b *testing.B, db testenv.Database) *gorm.DB {
	b.Helper()
	g := db.Open(b)
	require.NoError(b, g.Use(gormoutbox.New(gormoutbox.Config{})))
	require.NoError(b, gormoutbox.Migrate(b.Context(), g))
	return g
}

func fill(b *testing.B, g *gorm.DB, topic string) {
	b.Helper()
	payload := strings.Repeat("x", 256)
	for begin := 0; begin < drainEvents; begin += 500 {
		events := make([]gormoutbox.Event, 500)
		for i := range events {
			events[i] = gormoutbox.Event{
				AggregateType: "a", AggregateID: fmt.Sprint((begin + i) % drainKeys), Type: "a.happened", Topic: topic, Payload: payload,
			}
		}
		require.NoError(b, gormoutbox.Append(g, events...))
	}
}

// drain runs a relay until everything is published and settled.
func drain(b *testing.B, g *gorm.DB, pub message.Publisher) {
	b.Helper()
	c := newCounter(pub, drainEvents)
	r, err := relay.New(g, c, relay.Config{Logger: quiet})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	select {
	case <-c.done:
	case err := <-ended:
		b.Fatal("the relay ended: ", err)
	}
	cancel()
	require.NoError(b, <-ended)
}

// BenchmarkDrain publishes a backlog of 10,000 events of 1,000 aggregates to nowhere; beside it, the same
// rows read by one SELECT after the other and nothing else.
func BenchmarkDrain(b *testing.B) {
	eachDatabase(b, func(b *testing.B, db testenv.Database) {
		g := outbox(b, db)
		fill(b, g, "")
		interleave(b,
			variant{name: "read_only", run: func(b *testing.B) int { return readAll(b, g) }},
			variant{name: "relay", run: func(b *testing.B) int {
				drain(b, g, nil)
				return drainEvents
			}, prepare: func(b *testing.B) {
				require.NoError(b, g.Exec("UPDATE outbox_events SET processed_at = NULL").Error)
				require.NoError(b, g.Exec("UPDATE outbox_partitions SET low = 0").Error)
			}},
		)
	})
}

func readAll(b *testing.B, g *gorm.DB) int {
	b.Helper()
	n, last := 0, int64(0)
	for {
		var rows []struct {
			Seq     int64
			Payload []byte
			Headers string
		}
		require.NoError(b, g.Raw("SELECT seq, payload, headers FROM outbox_events WHERE seq > ? ORDER BY seq LIMIT 500", last).Scan(&rows).Error)
		if len(rows) == 0 {
			return n
		}
		n += len(rows)
		last = rows[len(rows)-1].Seq
	}
}

// BenchmarkKafka publishes the same backlog to Kafka (acks=all, idempotent); beside it, the same messages from 64
// callers of the same publisher without an outbox.
func BenchmarkKafka(b *testing.B) {
	broker := testenv.Kafka(b)
	pub, err := kafka.NewPublisher(broker.Addrs, quiet)
	require.NoError(b, err)
	defer func() { require.NoError(b, pub.Close()) }()
	topic := broker.Topic(b, "bench", 8)
	payload := []byte(strings.Repeat("x", 256))
	for _, d := range []struct {
		name string
		make func(testing.TB) testenv.Database
	}{{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}} {
		b.Run(d.name, func(b *testing.B) {
			g := outbox(b, d.make(b))
			interleave(b,
				variant{name: "bare_64", run: func(b *testing.B) int {
					return parallel(b, 64, drainEvents, func(i int) error {
						msg := message.NewMessage(fmt.Sprint(i), payload)
						msg.Metadata.Set(gormoutbox.HeaderAggregateID, fmt.Sprint(i%drainKeys))
						return pub.Publish(topic, msg)
					})
				}},
				variant{name: "relay", prepare: func(b *testing.B) { fill(b, g, topic) }, run: func(b *testing.B) int {
					drain(b, g, pub)
					return drainEvents
				}},
			)
		})
	}
}
