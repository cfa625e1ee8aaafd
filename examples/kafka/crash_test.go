// Package kafka_test starts the three programs of the example and kills them
// again and again.
package kafka_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

const (
	orderCount   = 200
	eventCount   = 2 * orderCount // created, paid
	clientCount  = 8
	killCount    = 3
	thinkingTime = time.Second // at most, between two requests of a client
	seedName     = "CRASH_SEED"
)

// crashTest is everything that the test looks at.
type crashTest struct {
	begin                 time.Time
	shop                  *shop
	orders, stock         *gorm.DB
	topic                 *topicReader
	service, relay, store *program
	placed                []placedOrder
	ordered               atomic.Bool // all orders are placed and paid
}

// TestCrashes places orders while each of the three programs is killed three
// times, and then counts.
func TestCrashes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	seed := seedOf(t)
	t.Logf("to see the same random numbers: %s=%d", seedName, seed)
	c := startAll(t)
	ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
	defer cancel()
	c.placed = newOrders(rand.New(rand.NewPCG(seed, 0)))
	require.NoError(t, await(ctx, "the service", func() bool { return c.shop.healthy(ctx) }))
	require.NoError(t, c.run(ctx, t, seed))
	require.NoError(t, await(ctx, "the last event to be published", func() bool {
		return count(c.orders.Table("outbox_events").Where("processed_at IS NULL")) == 0
	}))
	require.NoError(t, await(ctx, "the last event to be handled", func() bool {
		return count(c.stock.Table("processed_events")) >= eventCount
	}))
	for _, p := range []*program{c.service, c.relay, c.store} {
		status, err := p.stop()
		require.NoError(t, err)
		assert.Zero(t, status, "exit status of the %s", p.name)
	}

	c.checkOrders(t)
	c.checkStock(t)
	messages, duplicates := c.checkTopic(t)
	t.Logf("%d orders, %d crashes of each program, %d requests tried again, %d messages on the topic of which %d are duplicates, %s",
		orderCount, killCount, c.shop.retries.Load(), messages, duplicates, time.Since(c.begin).Round(time.Second))
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedName)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return seed
}

// startAll starts the programs on databases and a topic of their own.
func startAll(t *testing.T) *crashTest {
	t.Helper()
	orders, stock := testenv.Postgres(t), testenv.Postgres(t)
	broker := testenv.Kafka(t)
	topic := broker.Topic(t, "orders", 8)
	folder := build(t)
	c := &crashTest{
		begin: time.Now(), shop: newShop(t), orders: orders.Open(t), stock: stock.Open(t), topic: newTopicReader(t, broker.Addrs, topic),
	}
	brokers := "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ",")
	c.service = newProgram(t, folder, "service", "HTTP_ADDRESS="+c.shop.address, "ORDERS_DSN="+orders.DSN, "ORDERS_TOPIC="+topic)
	// A short lease: the partitions of a relay that was killed wait for it to run out.
	c.relay = newProgram(t, folder, "relay", "ORDERS_DSN="+orders.DSN, brokers, "RELAY_LEASE=2s")
	c.store = newProgram(t, folder, "stock", "STOCK_DSN="+stock.DSN, brokers, "ORDERS_TOPIC="+topic, "STOCK_GROUP="+topic)
	return c
}

func newOrders(random *rand.Rand) []placedOrder {
	orders := make([]placedOrder, orderCount)
	for i := range orders {
		orders[i] = placedOrder{
			ID: uuid.Must(uuid.NewV7()), SKU: fmt.Sprintf("sku-%d", random.IntN(10)), Quantity: 1 + random.IntN(5), Card: "4242424242424242",
		}
	}
	return orders
}

// run lets the clients place their orders and kills the programs meanwhile.
func (c *crashTest) run(ctx context.Context, t *testing.T, seed uint64) error {
	group, ctx := errgroup.WithContext(ctx)
	var clients errgroup.Group
	each := orderCount / clientCount
	for i := range clientCount {
		random := rand.New(rand.NewPCG(seed, uint64(1+i)))
		clients.Go(func() error { return c.shop.customer(ctx, random, c.placed[i*each:(i+1)*each]) })
	}
	group.Go(func() error {
		defer c.ordered.Store(true)
		return clients.Wait()
	})
	for i, v := range []victim{
		{c.service, c.shop.answered.Load, 120},
		// The topic grows before the relay records what it has published. What a
		// relay left behind is published at once by the next: a short life
		// ends in the middle of that.
		{c.relay, c.topic.size, 40},
		{c.store, func() int64 { return count(c.stock.Table("processed_events")) }, 100},
	} {
		random := rand.New(rand.NewPCG(seed, uint64(100+i)))
		group.Go(func() error { return c.crash(ctx, t, v, random) })
	}
	return group.Wait()
}

// victim is a program to be killed when it has made a random progress, up to life.
type victim struct {
	*program
	progress func() int64
	life     int64
}

// crash kills a program several times and starts it again.
func (c *crashTest) crash(ctx context.Context, t *testing.T, v victim, random *rand.Rand) error {
	for range killCount {
		target := v.progress() + 1 + random.Int64N(v.life)
		if err := await(ctx, "progress of the "+v.name, func() bool { return v.progress() >= target || c.ordered.Load() }); err != nil {
			return err
		}
		if err := v.kill(); err != nil {
			return err
		}
		t.Logf("%5.1f s: killed the %s at %d", time.Since(c.begin).Seconds(), v.name, v.progress())
		if err := v.start(); err != nil {
			return err
		}
	}
	return nil
}

// count is 0 if the table is not there yet.
func count(query *gorm.DB) int64 {
	var n int64
	if query.Count(&n).Error != nil {
		return 0
	}
	return n
}
