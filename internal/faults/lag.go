//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// consumed returns when the consumers have acked all that is in the outbox now, and what comes of it.
func (h *harness) consumed(ctx context.Context) error {
	for _, hop := range []struct {
		group  string
		reader *reader
	}{{hopReserve, h.published}, {hopInvoice, h.reserved}} {
		if err := h.drained(ctx); err != nil {
			return err
		}
		if err := h.acked(ctx, hop.group, hop.reader); err != nil {
			return err
		}
	}
	return h.drained(ctx) // of what is poisoned
}

// acked returns when a consumer group has acked all that its topic has now.
func (h *harness) acked(ctx context.Context, group string, r *reader) error {
	var goal [partitions]int64
	err := until(ctx, 100*time.Millisecond, func() (err error) {
		for p := range goal {
			if goal[p], err = r.client.GetOffset(r.topic, int32(p), sarama.OffsetNewest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return until(ctx, 500*time.Millisecond, func() error {
		return withAdmin(h.kafka.address(), func(admin sarama.ClusterAdmin) error {
			answer, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{r.topic: {0, 1, 2, 3, 4, 5}})
			if err != nil {
				return err
			}
			for p := range goal {
				if block := answer.GetBlock(r.topic, int32(p)); goal[p] > 0 && (block == nil || block.Offset < goal[p]) {
					return fmt.Errorf("group %s has not acked all of partition %d of %s: %v, wanted %d", group, p, r.topic, block, goal[p])
				}
			}
			return nil
		})
	})
}
