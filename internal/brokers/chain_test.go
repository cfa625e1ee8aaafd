package brokers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/pause"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

const (
	topic      = "order" // by gormoutbox.TopicByAggregate
	aggregates = 30
	versions   = 10
	early      = 5  // versions that are saved before the broker goes away …
	goingOn    = 40 // … the others from this delivery on …
	killedAt   = 60 // … and while this one is handled, it is killed
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

// effect is what the handler does for an event. Nothing keeps it from doing that twice.
type effect struct {
	ID        int64 // in the order of the commits, since one handler runs at a time
	Aggregate uuid.UUID
	Version   int
	Message   string
}

// noText ends every payload: a payload is any bytes.
var noText = []byte{'\n', 0, 0xff, '\r', '\n'}

// event is a row of the outbox.
type event struct {
	ID            uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	Payload       []byte
	Headers       string
	CreatedAt     time.Time
	ProcessedAt   *time.Time
}

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
	stopConsumer := background(c.consume)
	defer stopConsumer()
	defer stopRelays()

	orders := c.save(t)
	select {
	case <-c.killed: // it was, while the last events were saved
	case <-time.After(patience):
		t.Fatalf("%d of %d deliveries before the broker should go away", c.deliveries(), killedAt)
	}
	require.NoError(t, c.killErr)
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

// background runs fn until stop is called, which waits for it, also more than once.
func background(fn func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	})
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
	return background(func(ctx context.Context) error {
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

// consume runs the consumer. An adapter may give up when the broker goes away; then it starts again, as a process would be started again.
func (c *chain) consume(ctx context.Context) error {
	for {
		err := c.route(ctx)
		if ctx.Err() != nil {
			return err
		}
		if !pause.Sleep(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

func (c *chain) route(ctx context.Context) error {
	sub, err := c.broker.subscriber()
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return errors.Join(err, sub.Close())
	}
	router.AddMiddleware(c.record, middleware.Duplicator, c.dedup.Middleware)
	router.AddConsumerHandler("stock", topic, sub, c.handle)
	err = router.Run(ctx)
	return errors.Join(err, sub.Close()) // the router does not close it if it could not subscribe
}

// record notes what arrives, before anything else sees it, and kills the broker.
func (c *chain) record(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if c.broker.ghosts && msg.UUID == "" {
			c.mu.Lock()
			c.ghosts++
			c.mu.Unlock()
			return h(msg) // dedup refuses it
		}
		c.mu.Lock()
		c.arrived = append(c.arrived, &message.Message{UUID: msg.UUID, Payload: bytes.Clone(msg.Payload), Metadata: maps.Clone(msg.Metadata)})
		n := len(c.arrived)
		c.mu.Unlock()
		switch n {
		case goingOn:
			close(c.goOn)
		case killedAt:
			// Its effect will be committed, and nobody there to ack it to.
			c.killErr = c.broker.server.kill()
			close(c.killed)
		}
		return h(msg)
	}
}

var errNowAndThen = errors.New("the handler fails")

// handle has its effect, and fails after it for the first time with every seventh message.
func (c *chain) handle(msg *message.Message) error {
	var o Order
	if err := json.Unmarshal(bytes.TrimSuffix(msg.Payload, noText), &o); err != nil {
		return err
	}
	if err := dedup.Tx(msg.Context()).Create(&effect{Aggregate: o.ID, Version: o.Version, Message: msg.UUID}).Error; err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, again := c.failures[msg.UUID]; again {
		return nil
	}
	c.failures[msg.UUID] = len(c.failures)%7 == 0
	if c.failures[msg.UUID] {
		return errNowAndThen
	}
	return nil
}

// headers are those of a user: a correlation id, and one of which no byte may get lost.
func headers(ctx context.Context, o Order) context.Context {
	return gormoutbox.WithHeaders(gormoutbox.WithCorrelationID(ctx, "c-"+o.ID.String()), map[string]string{
		"Own-Header": fmt.Sprintf(" ü\"\\\x00\t\r\n: %d ", o.Version), "empty": "",
	})
}

// save saves the orders, by several writers, most of whose events are made while the broker is away.
func (c *chain) save(t *testing.T) []uuid.UUID {
	t.Helper()
	orders := make([]uuid.UUID, aggregates)
	for i := range orders {
		o := Order{ID: uuid.New(), Version: 1, Note: "\"ü\"\n"}
		require.NoError(t, c.app.WithContext(headers(t.Context(), o)).Create(&o).Error)
		orders[i] = o.ID
	}
	c.update(t, orders, early-1)
	select {
	case <-c.goOn:
	case <-time.After(patience):
		t.Fatalf("%d of %d deliveries", c.deliveries(), goingOn)
	}
	c.update(t, orders, versions-early)
	return orders
}

// update changes each order n times, in a random order and under the lock of its row, which makes the order of its events.
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

func (c *chain) deliveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrived)
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

// assertEffects asserts that there is one for each version of each order, in their order.
func (c *chain) assertEffects(t *testing.T, orders []uuid.UUID, last uuid.UUID) {
	t.Helper()
	var all []effect
	require.NoError(t, c.look.Order("id").Find(&all).Error)
	got := map[uuid.UUID]map[int]int{}
	for _, e := range all {
		if got[e.Aggregate] == nil {
			got[e.Aggregate] = map[int]int{}
		}
		got[e.Aggregate][e.Version]++
	}
	want := map[uuid.UUID]map[int]int{}
	for _, id := range orders {
		want[id] = map[int]int{}
		for v := 1; v <= versions && (v == 1 || id != last); v++ {
			want[id][v] = 1
		}
	}
	assert.Equal(t, want, got, "how many effects each version of each order had")
}

// events returns what is in the outbox, in its order.
func (c *chain) events(t *testing.T) []event {
	t.Helper()
	var all []event
	require.NoError(t, c.look.Table(gormoutbox.DefaultTable).Order("seq").Find(&all).Error)
	return all
}

// assertContents asserts that each delivery was what is in the outbox.
func (c *chain) assertContents(t *testing.T) {
	t.Helper()
	want := map[string]event{}
	for _, e := range c.events(t) {
		want[e.ID.String()] = e
	}
	for _, msg := range c.arrived {
		e, ok := want[msg.UUID]
		if !assert.True(t, ok, "a message that is not in the outbox: %q", msg.UUID) {
			continue
		}
		assert.Equal(t, e.Payload, []byte(msg.Payload))
		metadata := message.Metadata{}
		require.NoError(t, json.Unmarshal([]byte(e.Headers), &metadata))
		assert.Contains(t, metadata, "correlation_id")
		assert.Contains(t, metadata, "Own-Header")
		for name, value := range map[string]string{
			"name": e.EventType, "event_type": e.EventType, "aggregate_type": e.AggregateType, "aggregate_id": e.AggregateID,
			"occurred_at": e.CreatedAt.UTC().Format(time.RFC3339Nano),
		} {
			metadata[name] = value
		}
		got := maps.Clone(msg.Metadata)
		for _, name := range c.broker.added {
			delete(got, name)
		}
		assert.Equal(t, metadata, got)
	}
}

// assertOrder asserts, of each aggregate, that its messages arrived for the first time in the order of the outbox, and had their effects in it.
func (c *chain) assertOrder(t *testing.T) {
	t.Helper()
	aggregate, want := map[string]string{}, map[string][]string{}
	for _, e := range c.events(t) {
		aggregate[e.ID.String()] = e.AggregateID
		want[e.AggregateID] = append(want[e.AggregateID], e.ID.String())
	}
	arrived, seen := map[string][]string{}, map[string]bool{}
	for _, msg := range c.arrived {
		if !seen[msg.UUID] {
			seen[msg.UUID] = true
			arrived[aggregate[msg.UUID]] = append(arrived[aggregate[msg.UUID]], msg.UUID)
		}
	}
	assert.Equal(t, want, arrived, "the order of first deliveries")

	var effects []effect
	require.NoError(t, c.look.Order("id").Find(&effects).Error)
	had := map[string][]string{}
	for _, e := range effects {
		had[e.Aggregate.String()] = append(had[e.Aggregate.String()], e.Message)
	}
	assert.Equal(t, want, had, "the order of effects")
}

// assertTrouble asserts that what should go wrong did.
func (c *chain) assertTrouble(t *testing.T) {
	t.Helper()
	failed := 0
	for _, f := range c.failures {
		if f {
			failed++
		}
	}
	stats, events := c.dedup.Stats(), uint64(aggregates*versions+1)
	assert.GreaterOrEqual(t, failed, aggregates*versions/7)
	assert.Equal(t, events, stats.Committed)
	assert.GreaterOrEqual(t, stats.Duplicates, events, "each was handled twice")
	assert.GreaterOrEqual(t, len(c.arrived), int(events)+failed, "deliveries")
	assert.Equal(t, uint64(failed+c.ghosts), stats.Failed, "all failures were planned")
	assert.Positive(t, c.outages.Load(), "relays noticed that the broker was away")
	t.Logf("%d events, %d deliveries, of them %d after a planned failure; %d without an id; relays told %d errors",
		events, len(c.arrived), failed, c.ghosts, c.outages.Load())
}
