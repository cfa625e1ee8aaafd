package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	drainEvents = 20_000
	drainBatch  = 500
)

var quiet = slog.New(slog.DiscardHandler)

// nowhere takes everything, at once or one by one.
type nowhere struct{}

func (nowhere) Publish(string, ...*message.Message) error { return nil }
func (nowhere) Close() error                              { return nil }
func (nowhere) PublishBatch(_ context.Context, batch []watermilladapter.Outgoing) []error {
	return make([]error, len(batch))
}

// single hides that a publisher takes batches.
type single struct{ message.Publisher }

func outbox(b *testing.B, db testenv.Database) *gorm.DB {
	b.Helper()
	g := db.Open(b)
	require.NoError(b, g.Use(gormoutbox.New(gormoutbox.Config{})))
	require.NoError(b, gormoutbox.Migrate(b.Context(), g))
	return g
}

func fill(b *testing.B, g *gorm.DB, topic string, keys int) {
	b.Helper()
	payload := strings.Repeat("x", 256)
	for begin := 0; begin < drainEvents; begin += 500 {
		events := make([]gormoutbox.Event, 500)
		for i := range events {
			events[i] = gormoutbox.Event{
				AggregateType: "a", AggregateID: fmt.Sprint((begin + i) % keys), Type: "a.happened", Topic: topic, Payload: payload,
			}
		}
		require.NoError(b, gormoutbox.Append(g, events...))
	}
}

// drain publishes the backlog.
func drain(b *testing.B, g *gorm.DB, pub message.Publisher, config relay.Config) int {
	b.Helper()
	config.Logger = quiet
	r, err := relay.New(g, pub, config)
	require.NoError(b, err)
	require.NoError(b, r.Drain(b.Context()))
	return drainEvents
}

// BenchmarkDrain publishes a backlog of 20,000 events of 1,000 aggregates to nowhere; beside it, the same
// rows read by one SELECT after the other and nothing else.
func BenchmarkDrain(b *testing.B) {
	eachDatabase(b, func(b *testing.B, db testenv.Database) {
		g := outbox(b, db)
		again := func(b *testing.B) {
			require.NoError(b, g.Exec("DELETE FROM outbox_events").Error)
			fill(b, g, "", 1000)
			require.NoError(b, g.Exec(map[string]string{
				"postgres": "VACUUM ANALYZE outbox_events", "mysql": "ANALYZE TABLE outbox_events", "sqlite": "ANALYZE outbox_events",
			}[g.Name()]).Error)
		}
		interleave(b,
			variant{name: "read_only", prepare: again, run: func(b *testing.B) int { return readAll(b, g) }},
			variant{name: "keep", prepare: again, run: func(b *testing.B) int { return drain(b, g, nowhere{}, relay.Config{}) }},
			variant{name: "delete", prepare: again, run: func(b *testing.B) int { return drain(b, g, nowhere{}, relay.Config{DeleteOnPublish: true}) }},
			variant{name: "keep_single", prepare: again, run: func(b *testing.B) int { return drain(b, g, single{nowhere{}}, relay.Config{}) }},
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

// BenchmarkKafka publishes such a backlog to Kafka (acks=all, idempotent), of 1,000 aggregates and of one; beside it, the same
// messages without an outbox, in batches of 500 through the same publisher.
func BenchmarkKafka(b *testing.B) {
	broker := testenv.Kafka(b)
	pub, err := kafka.NewPublisher(broker.Addrs, quiet)
	require.NoError(b, err)
	defer func() { require.NoError(b, pub.Close()) }()
	topic := broker.Topic(b, "bench", 8)
	for _, d := range []struct {
		name string
		make func(testing.TB) testenv.Database
	}{{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}} {
		for _, keys := range []int{1000, 1} {
			b.Run(fmt.Sprintf("%s/%d", d.name, keys), func(b *testing.B) {
				g := outbox(b, d.make(b))
				again := func(b *testing.B) {
					require.NoError(b, g.Exec("DELETE FROM outbox_events").Error)
					fill(b, g, topic, keys)
				}
				variants := []variant{
					{name: "bare", run: func(b *testing.B) int { return bare(b, pub, topic, keys) }},
					{name: "relay", prepare: again, run: func(b *testing.B) int { return drain(b, g, pub, relay.Config{}) }},
				}
				if keys > 1 { // one by one is a matter of seconds a thousand otherwise
					variants = append(variants, variant{name: "relay_single", prepare: again, run: func(b *testing.B) int { return drain(b, g, single{pub}, relay.Config{}) }})
				}
				interleave(b, variants...)
			})
		}
	}
}

// bare publishes the same messages without an outbox.
func bare(b *testing.B, pub *kafka.Publisher, topic string, keys int) int {
	b.Helper()
	payload := []byte(strings.Repeat("x", 256))
	for begin := 0; begin < drainEvents; begin += drainBatch {
		batch := make([]watermilladapter.Outgoing, drainBatch)
		for i := range batch {
			msg := message.NewMessage(fmt.Sprint(begin+i), payload)
			msg.Metadata.Set(gormoutbox.HeaderAggregateType, "a")
			msg.Metadata.Set(gormoutbox.HeaderAggregateID, fmt.Sprint((begin+i)%keys))
			batch[i] = watermilladapter.Outgoing{Topic: topic, Message: msg}
		}
		for _, err := range pub.PublishBatch(b.Context(), batch) {
			require.NoError(b, err)
		}
	}
	return drainEvents
}
