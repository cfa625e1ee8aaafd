package kafka_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkOrders: no order is lost, none is there twice, and each has its two events.
func (c *crashTest) checkOrders(t *testing.T) {
	t.Helper()
	var rows []struct {
		ID            uuid.UUID
		SKU           string
		Quantity      int
		Status, Event string
	}
	require.NoError(t, c.orders.Raw("SELECT id, sku, quantity, status FROM orders").Scan(&rows).Error)
	require.Equal(t, orderCount, len(rows), "orders") //nolint:testifylint // Len would print them all
	byID := map[uuid.UUID]placedOrder{}
	for _, o := range c.placed {
		byID[o.ID] = o
	}
	for _, r := range rows {
		want, known := byID[r.ID]
		assert.True(t, known, "order %s", r.ID)
		assert.Equal(t, want.SKU, r.SKU)
		assert.Equal(t, want.Quantity, r.Quantity)
		assert.Equal(t, "paid", r.Status)
	}
	events := c.events(t)
	assert.Equal(t, orderCount, len(events), "orders with events") //nolint:testifylint // Len would print them all
	for _, o := range c.placed {
		var types []string
		for _, e := range events[o.ID.String()] {
			types = append(types, e.EventType)
		}
		assert.Equal(t, []string{"order.created", "order.updated"}, types, "events of order %s", o.ID)
	}
}

type storedEvent struct{ ID, AggregateID, EventType string }

// events reads the outbox by order, in the order in which the events were written.
func (c *crashTest) events(t *testing.T) map[string][]storedEvent {
	t.Helper()
	var all []storedEvent
	require.NoError(t, c.orders.Raw("SELECT id, aggregate_id, event_type FROM outbox_events ORDER BY seq").Scan(&all).Error)
	byOrder := map[string][]storedEvent{}
	for _, e := range all {
		byOrder[e.AggregateID] = append(byOrder[e.AggregateID], e)
	}
	return byOrder
}

// checkStock: each event had its effect once.
func (c *crashTest) checkStock(t *testing.T) {
	t.Helper()
	var reservations []struct {
		OrderID  uuid.UUID
		SKU      string
		Quantity int
		Paid     bool
	}
	require.NoError(t, c.stock.Raw("SELECT order_id, sku, quantity, paid FROM reservations").Scan(&reservations).Error)
	require.Equal(t, orderCount, len(reservations), "reservations") //nolint:testifylint // Len would print them all
	want := map[uuid.UUID]placedOrder{}
	reserved := map[string]int{}
	for _, o := range c.placed {
		want[o.ID] = o
		reserved[o.SKU] += o.Quantity
	}
	for _, r := range reservations {
		o, ok := want[r.OrderID]
		assert.True(t, ok, "a second reservation, or an unknown order: %s", r.OrderID)
		delete(want, r.OrderID)
		assert.Equal(t, o.Quantity, r.Quantity)
		assert.Equal(t, o.SKU, r.SKU)
		assert.True(t, r.Paid, "order %s", r.OrderID)
	}
	var items []struct {
		SKU      string
		Reserved int
	}
	require.NoError(t, c.stock.Raw("SELECT sku, reserved FROM items").Scan(&items).Error)
	got := map[string]int{}
	for _, i := range items {
		got[i.SKU] = i.Reserved
	}
	assert.Equal(t, reserved, got, "sums that a repeated effect would spoil")
	assert.EqualValues(t, eventCount, count(c.stock.Table("processed_events")))
}

// checkTopic: every event is there, under the key of its order, and the first
// deliveries are in the order of the outbox.
func (c *crashTest) checkTopic(t *testing.T) (messages, duplicates int) {
	t.Helper()
	records := c.topic.read(t)
	seen := map[string]bool{}
	first := map[string][]string{} // event ids by key
	partitions := map[string]int32{}
	for _, r := range records {
		id, key := header(r, "_watermill_message_uuid"), string(r.Key)
		assert.Equal(t, header(r, "aggregate_id"), key, "the key is the order's id")
		assert.NotContains(t, string(r.Value), "4242424242424242", "the card stays in the database")
		if p, ok := partitions[key]; ok {
			assert.Equal(t, p, r.Partition, "partition of order %s", key)
		}
		partitions[key] = r.Partition
		if seen[id] {
			duplicates++
			continue
		}
		seen[id] = true
		first[key] = append(first[key], id)
	}
	assert.Equal(t, eventCount, len(seen), "events on the topic") //nolint:testifylint // Len would print them all
	events := c.events(t)
	assert.Equal(t, len(events), len(first), "keys on the topic") //nolint:testifylint // Len would print them all
	for order, stored := range events {
		var ids []string
		for _, e := range stored {
			ids = append(ids, e.ID)
		}
		assert.Equal(t, ids, first[order], "first deliveries of order %s", order)
	}
	assert.False(t, c.topic.exists(t, c.topic.name+".poison"), "nothing was put aside")
	return len(records), duplicates
}
