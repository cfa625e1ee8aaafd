package relay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEventsArePublishedInOrderAndSettled(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		stop := start(t, g, pub, relay.Config{})
		for i := range 20 {
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				return gormoutbox.Append(tx, event("k", fmt.Sprint(i)))
			}))
		}
		pub.wait(t, 20)
		stop()
		want := make([]string, 20)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		assert.Equal(t, want, pub.payloads())
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "partitions are given back")
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_relays"))
	})
}
