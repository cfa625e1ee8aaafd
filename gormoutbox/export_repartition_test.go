package gormoutbox

import (
	"context"

	"gorm.io/gorm"
)

// RepartitionInBatches is Repartition with batches of the given size, which calls moved behind each.
func RepartitionInBatches(ctx context.Context, db *gorm.DB, count, rows int, moved func()) error {
	r, err := newRepartition(db, "", count)
	if err != nil {
		return err
	}
	r.rows, r.moved = rows, moved
	return r.run(ctx, db)
}
