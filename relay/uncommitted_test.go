package relay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// TestReadUncommitted: a relay whose sessions see what is not committed publishes nothing, and says why.
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

	pub, failed := newRecorder(), make(chan error, 100)
	stop := start(t, pool, pub, relay.Config{OnError: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}})
	require.ErrorIs(t, <-failed, relay.ErrReadUncommitted)
	require.ErrorIs(t, <-failed, relay.ErrReadUncommitted, "and again")
	require.NoError(t, tx.Rollback().Error)
	add(t, g, event("a", "later"))
	require.ErrorIs(t, <-failed, relay.ErrReadUncommitted)
	stop()
	assert.Zero(t, pub.count())

	// In order it is, with a pool like that of others.
	start(t, g.Session(&gorm.Session{NewDB: true}), pub, relay.Config{})
	pub.waitFor(t, "later")
	assert.Equal(t, 1, pub.count())
}
