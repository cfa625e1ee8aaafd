package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

// outcome is what a report is about.
type outcome struct {
	db    *gorm.DB
	b     *broker
	post  *carrier
	stats dedup.Stats
}

// good returns an outcome as it must be.
func good(t *testing.T) *outcome {
	t.Helper()
	db, closeDB, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	require.NoError(t, err)
	t.Cleanup(closeDB)
	o := &outcome{db: db, b: newBroker("order.shipped", 2), post: &carrier{}, stats: dedup.Stats{Committed: 14, Duplicates: 14, Failed: 1}}
	o.post.failures.Store(1)
	for _, id := range []int64{1, 2} {
		require.NoError(t, db.Create(&Order{ID: id, Item: "tea", Status: "shipped"}).Error)
		require.NoError(t, db.Create(&Parcel{OrderID: id}).Error)
		for _, what := range []string{"created", "packed", "shipped"} {
			require.NoError(t, db.Create(&TimelineEntry{OrderID: id, What: what}).Error)
		}
	}
	for _, id := range []string{"1", "2"} {
		for _, name := range []string{"order.created", "ship_order", "order.packed", "order.shipped"} {
			msg := message.NewMessage("", nil)
			msg.Metadata = message.Metadata{gormoutbox.HeaderName: name, gormoutbox.HeaderAggregateID: id}
			require.NoError(t, o.b.Publish(topicOrders, msg))
		}
	}
	return o
}

// TestReport: nothing that dedup or the outbox prevents would go unnoticed.
func TestReport(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(o *outcome) error
		cause  string
	}{
		"as it must be":  {change: func(*outcome) error { return nil }},
		"order lost":     {func(o *outcome) error { return o.db.Delete(&Order{ID: 2}).Error }, "1 orders"},
		"not shipped":    {func(o *outcome) error { return o.db.Model(&Order{ID: 2}).Update("status", "placed").Error }, "one parcel"},
		"parcel doubled": {func(o *outcome) error { return o.db.Create(&Parcel{OrderID: 2}).Error }, "one parcel"},
		"event doubled":  {func(o *outcome) error { return o.db.Create(&TimelineEntry{OrderID: 1, What: "packed"}).Error }, "noted once"},
		"event lost":     {func(o *outcome) error { return o.db.Delete(&TimelineEntry{ID: 1}).Error }, "noted once"},
		"message lost":   {func(o *outcome) error { o.b.sent = o.b.sent[1:]; return nil }, "published once"},
		"no order": {func(o *outcome) error {
			o.b.sent[2], o.b.sent[3] = o.b.sent[3], o.b.sent[2]
			return nil
		}, "published once"},
		"no failure":    {func(o *outcome) error { o.post.failures.Store(0); return nil }, "must fail"},
		"no duplicates": {func(o *outcome) error { o.stats.Duplicates = 0; return nil }, "delivered twice"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good(t)
			require.NoError(t, test.change(o))
			err := report(context.Background(), io.Discard, o.db, o.b, o.post, o.stats)
			if test.cause == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.cause)
		})
	}
}
