package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

const (
	topic      = "order" // by gormoutbox.TopicByAggregate
	aggregates = 10      // few, so that a message which is delivered too early is often behind one of its own aggregate
	versions   = 30
	early      = 15 // versions that are saved at first; more from …
	goingOn    = 40 // … this delivery on; while …
	killedAt   = 60 // … this one is handled, the broker is killed; and while it is away …
	late       = 6  // … the last versions are saved
	patience   = 2 * time.Minute
)

var quiet = slog.New(slog.DiscardHandler)

// broker is what a test knows of its broker.
type broker struct {
	server     *server
	publisher  func() (message.Publisher, error)
	subscriber func() (message.Subscriber, error)
	// left is how many messages the broker still keeps for the consumer.
	left func(context.Context) (int, error)
	// added are metadata that the adapter adds to some deliveries.
	added []string
	// ghosts says that the adapter delivers messages that nobody has sent, without an id, when its connection is lost.
	ghosts bool
}

// Order makes events. Its version is how many there are of it.
type Order struct {
	_ gormoutbox.Emit `outbox:"aggregate=order"`

	ID      uuid.UUID
	Version int
	Note    string
}

// noText ends every payload: a payload is any bytes.
var noText = []byte{'\n', 0, 0xff, '\r', '\n'}

// chain is an application that saves, two relays, and a consumer.
type chain struct {
	broker broker
	app    *gorm.DB // with the plugin
	look   *gorm.DB // without it
	dedup  *dedup.Deduplicator

	goOn, killed chan struct{}
	killErr      error        // before killed is closed
	outages      atomic.Int64 // errors that relays told

	mu       sync.Mutex
	arrived  []*message.Message
	ghosts   int
	failures map[string]bool // by message, whether its first handling failed
}

// testChain saves aggregates*versions events while relays publish them and a consumer handles them, kills the broker on the
// way, and asserts that all effects are there once, in the order of each aggregate, of messages that are what is in the outbox.
func testChain(t *testing.T, b broker) {
	t.Helper()
	c := newChain(t, b)
	stopRelays := c.relays(t)
	stopConsumer := background(t, c.consume)

	orders := c.create(t)
	c.update(t, orders, early-1)
	c.reached(t, c.goOn, goingOn)
	c.update(t, orders, versions-early-late)
	c.reached(t, c.killed, killedAt)
	require.NoError(t, c.killErr)
	c.update(t, orders, late)
	require.Eventually(t, func() bool { return c.outages.Load() > 0 }, patience, 10*time.Millisecond, "relays notice that the broker is away")
	require.NoError(t, b.server.start(t.Context()))
	c.wait(t, len(orders)*versions)

	// What comes behind all the others shows that nothing of them is still to come.
	last := Order{ID: uuid.New(), Version: 1}
	require.NoError(t, c.app.WithContext(headers(t.Context(), last)).Create(&last).Error)
	c.wait(t, len(orders)*versions+1)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		left, err := b.left(context.Background())
		assert.NoError(t, err)
		assert.Zero(t, left)
	}, patience, 50*time.Millisecond, "messages that were not acked")
	require.NoError(t, stopConsumer())
	require.NoError(t, stopRelays())

	c.assertEffects(t, append(orders, last.ID), last.ID)
	c.assertContents(t)
	c.assertOrder(t)
	c.assertTrouble(t)
}

func newChain(t *testing.T, b broker) *chain {
	t.Helper()
	db := testenv.Postgres(t)
	c := &chain{
		broker: b, app: db.Open(t), look: db.Open(t),
		goOn: make(chan struct{}), killed: make(chan struct{}), failures: map[string]bool{},
	}
	require.NoError(t, c.app.Use(gormoutbox.New(gormoutbox.Config{
		Topic: gormoutbox.TopicByAggregate, Logger: quiet,
		Marshal: func(_ context.Context, change gormoutbox.Change) ([]byte, error) {
			payload, err := change.DefaultPayload()
			return append(payload, noText...), err
		},
	})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), c.app))
	require.NoError(t, dedup.Migrate(t.Context(), c.look))
	require.NoError(t, c.look.AutoMigrate(&Order{}, &effect{}))
	var err error
	c.dedup, err = dedup.New(c.look, dedup.Config{Logger: quiet})
	require.NoError(t, err)
	return c
}

// background runs fn until stop is called, which waits for it, or until the test ends.
func background(t *testing.T, fn func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() }) // its error is asserted by who calls it
	return stop
}

// relays runs two of them, each with a publisher of its own as in two processes.
func (c *chain) relays(t *testing.T) (stop func() error) {
	t.Helper()
	var all []*relay.Relay
	var publishers []message.Publisher
	for range 2 {
		p, err := c.broker.publisher()
		require.NoError(t, err)
		publishers = append(publishers, p)
		r, err := relay.New(c.app, p, relay.Config{Logger: quiet, OnError: func(error) { c.outages.Add(1) }})
		require.NoError(t, err)
		all = append(all, r)
	}
	return background(t, func(ctx context.Context) error {
		var group errgroup.Group
		for _, r := range all {
			group.Go(func() error { return r.Run(ctx) })
		}
		err := group.Wait()
		for _, p := range publishers {
			err = errors.Join(err, p.Close())
		}
		return err
	})
}

// headers are those of a user: a correlation id, and one of which no byte may get lost.
func headers(ctx context.Context, o Order) context.Context {
	return gormoutbox.WithHeaders(gormoutbox.WithCorrelationID(ctx, "c-"+o.ID.String()), map[string]string{
		"Own-Header": fmt.Sprintf(" ü\"\\\x00\t\r\n: %d ", o.Version), "empty": "",
	})
}

// create saves the first versions.
func (c *chain) create(t *testing.T) []uuid.UUID {
	t.Helper()
	orders := make([]uuid.UUID, aggregates)
	for i := range orders {
		o := Order{ID: uuid.New(), Version: 1, Note: "\"ü\"\n"}
		require.NoError(t, c.app.WithContext(headers(t.Context(), o)).Create(&o).Error)
		orders[i] = o.ID
	}
	return orders
}

// update changes each order n times, by several writers, in a random order and under the lock of its row, which makes the order of its events.
func (c *chain) update(t *testing.T, orders []uuid.UUID, n int) {
	t.Helper()
	work := make(chan uuid.UUID, len(orders)*n)
	for _, i := range rand.Perm(len(orders) * n) {
		work <- orders[i%len(orders)]
	}
	close(work)
	group, ctx := errgroup.WithContext(t.Context())
	for range 3 {
		group.Go(func() error {
			for id := range work {
				err := c.app.Transaction(func(tx *gorm.DB) error {
					o := Order{ID: id}
					if err := tx.WithContext(ctx).Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&o).Error; err != nil {
						return err
					}
					o.Version++
					return tx.WithContext(headers(ctx, o)).Save(&o).Error
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// reached waits until done is closed, at the delivery n.
func (c *chain) reached(t *testing.T, done <-chan struct{}, n int) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%d of %d deliveries", c.deliveries(), n)
	}
}

// wait waits until n events are published and have had at least as many effects.
func (c *chain) wait(t *testing.T, n int) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var effects, published int64
		assert.NoError(t, c.look.Model(&effect{}).Distinct("message").Count(&effects).Error)
		assert.NoError(t, c.look.Table(gormoutbox.DefaultTable).Where("processed_at IS NOT NULL").Count(&published).Error)
		assert.EqualValues(t, n, effects, "messages with effects")
		assert.EqualValues(t, n, published, "published events")
	}, patience, 50*time.Millisecond)
}
