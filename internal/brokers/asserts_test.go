package brokers_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

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
	t.Logf("%d events, %d deliveries, of them %d after a planned failure; %d without an id; relays told %d errors",
		events, len(c.arrived), failed, c.ghosts, c.outages.Load())
}
