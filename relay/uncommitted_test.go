package relay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// TestReadUncommitted: a relay whose sessions see what is not committed publishes nothing, says why, and leaves the partitions to others.
func TestReadUncommitted(t *testing.T) {
	t.Parallel()
	db := testenv.MariaDB(t)
	g := open(t, db)
	separator := "?"
	if strings.Contains(db.DSN, "?") {
		separator = "&"
	}
	db.DSN += separator + "tx_isolation=%27READ-UNCOMMITTED%27"
	pool := db.Open(t)
	tx := begin(t, g)
	require.NoError(t, gormoutbox.Append(tx, event("a", "never")))
	var seen int64
	require.NoError(t, pool.Table("outbox_events").Count(&seen).Error)
	require.EqualValues(t, 1, seen, "the pool is as it should not be")

	pub := newRecorder()
	r, err := relay.New(pool, pub, relay.Config{Logger: quiet})
	require.NoError(t, err)
	require.ErrorIs(t, r.Run(t.Context()), relay.ErrReadUncommitted)
	require.NoError(t, tx.Rollback().Error)
	assert.Zero(t, pub.count())
	assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "partitions that it has")
	assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_relays"), "it is not among those to share with")
}
