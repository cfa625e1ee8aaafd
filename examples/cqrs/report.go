package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
)

// report prints what has become of the orders. It returns an error if anything is not there once, and in order.
func report(ctx context.Context, out io.Writer, db *gorm.DB, b *broker, post *carrier, stats dedup.Stats) error {
	db = db.WithContext(ctx)
	var orders []Order
	if err := db.Order("id").Find(&orders).Error; err != nil {
		return err
	}
	if len(orders) != 2 {
		return fmt.Errorf("there are %d orders, not 2", len(orders))
	}
	for _, o := range orders {
		var parcels int64
		if err := db.Model(&Parcel{}).Where("order_id = ?", o.ID).Count(&parcels).Error; err != nil {
			return err
		}
		var timeline []string
		if err := db.Model(&TimelineEntry{}).Where("order_id = ?", o.ID).Order("id").Pluck("what", &timeline).Error; err != nil {
			return err
		}
		published := b.about(strconv.FormatInt(o.ID, 10))
		fmt.Fprintf(out, "order %d, %s: %s, %d parcel\n", o.ID, o.Item, o.Status, parcels)
		fmt.Fprintf(out, "  published  %s\n", strings.Join(published, ", "))
		fmt.Fprintf(out, "  timeline   %s\n", strings.Join(timeline, ", "))
		switch {
		case o.Status != "shipped" || parcels != 1:
			return fmt.Errorf("order %d must be shipped in one parcel", o.ID)
		case !slices.Equal(published, []string{"order.created", "ship_order", "order.packed", "order.shipped"}):
			return fmt.Errorf("each message about order %d must be published once, in order", o.ID)
		case !slices.Equal(timeline, []string{"created", "packed", "shipped"}):
			return fmt.Errorf("each event of order %d must be noted once, in order", o.ID)
		}
	}
	fmt.Fprintf(out, "%d attempt failed and left nothing behind\n", post.failures.Load())
	fmt.Fprintf(out, "%d messages handled, %d repeated deliveries changed nothing\n", stats.Committed, stats.Duplicates)
	if post.failures.Load() != 1 || stats.Duplicates != stats.Committed {
		return fmt.Errorf("one attempt must fail, and each message be delivered twice")
	}
	return nil
}
