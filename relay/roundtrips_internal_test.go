package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// sink takes every batch.
type sink struct{ publishFunc }

func (sink) PublishBatch(_ context.Context, batch []watermilladapter.Outgoing) []error {
	return make([]error, len(batch))
}

// TestRoundTripsOfABatch counts on the socket what a batch of a backlog costs: reading it and recording it. MySQL's driver
// sets the isolation and begins, and PostgreSQL does both in one.
func TestRoundTripsOfABatch(t *testing.T) {
	t.Parallel()
	for _, db := range []struct {
		make func(testing.TB) testenv.Database
		// begin is what a pass costs at most in which a walk begins, batch what each page does. On PostgreSQL it looks at some
		// numbers again that are published.
		begin, batch int
	}{
		{testenv.Postgres, 4, 2},
		{testenv.Postgres18, 4, 2},
		{testenv.MariaDBInterpolate, 9, 5},
		{testenv.MySQLInterpolate, 9, 5},
	} {
		base := db.make(t)
		t.Run(base.Name, func(t *testing.T) {
			t.Parallel()
			database, trips := base.Via(t)
			g, r := migrated(t, database, Config{BatchSize: 10})
			r.sender = &batches{publisher: sink{publishFunc(func(*message.Message) error { return nil })}, timeout: time.Hour, valid: r.leases.valid}
			pool, err := g.DB()
			require.NoError(t, err)
			pool.SetMaxOpenConns(1)
			require.NoError(t, r.leases.balance(t.Context(), r.reader.low))
			never := time.Now().Add(1000 * time.Hour)
			st := &loopState{nextDue: never, nextHeld: never, nextSweep: never}
			r.leases.nextBalance = never

			walk := func(pages int) (n int) {
				for range pages + 1 {
					events := make([]gormoutbox.Event, 10)
					for i := range events {
						events[i] = gormoutbox.Event{AggregateType: "a", AggregateID: fmt.Sprint(i), Type: "e", Payload: "p"}
					}
					require.NoError(t, gormoutbox.Append(g, events...))
				}
				r.mustPass(t, st) // the first page shows that there is a backlog
				trips.Reset()
				res := r.mustPass(t, st)
				n = trips.Count()
				require.Equal(t, 10*pages, res.published)
				r.mustPass(t, st) // there is no more
				return n
			}
			walk(5) // statements are prepared
			walk(5)
			few, many := walk(5), walk(15)
			assert.Equal(t, db.batch, (many-few)/10, "%d and %d", few, many)
			assert.LessOrEqual(t, few-5*db.batch, db.begin)
		})
	}
}
