package gormoutbox

import (
	"context"

	"gorm.io/gorm"
)

// RepartitionInSteps is Repartition with batches of the given size, which calls after behind each, with "moved", and on MySQL
// and MariaDB behind the fence, with "fenced".
func RepartitionInSteps(ctx context.Context, db *gorm.DB, count, rows int, after func(step string)) error {
	r, err := newRepartition(db, "", count)
	if err != nil {
		return err
	}
	r.rows, r.after = rows, after
	return r.run(ctx, db)
}
