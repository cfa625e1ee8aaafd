package relay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// parcel is captured by the plugin.
type parcel struct {
	_  gormoutbox.Emit `outbox:"aggregate=parcel"`
	ID int             `gorm:"primaryKey;autoIncrement:false"`
}

// asleep polls once and then, of itself, not for the length of a test.
func asleep(low time.Duration) relay.Config {
	return relay.Config{MinPoll: low, MaxPoll: time.Hour, Lease: 3 * time.Hour}
}

// idle waits until the relay has its partitions and its first read is over.
func idle(t testing.TB, g *gorm.DB, pub *recorder) {
	t.Helper()
	add(t, g, event("idle", "idle"))
	pub.waitFor(t, "idle")
	eventually(t, "the first events are settled", func() bool {
		return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
	})
}

func TestACommitInThisProcessWakesTheRelay(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		require.NoError(t, g.AutoMigrate(&parcel{}))
		pub := newRecorder()
		start(t, g, pub, asleep(time.Hour))
		idle(t, g, pub)
		n := pub.count()
		require.NoError(t, g.Create(&parcel{ID: 1}).Error)
		pub.wait(t, n+1)
		require.NoError(t, gormoutbox.Transaction(g, func(tx *gorm.DB) error { return tx.Create(&parcel{ID: 2}).Error }))
		pub.wait(t, n+2)
		add(t, g, event("k", "x"))
		pub.wait(t, n+3)
	})
}

// TestAWriteInAUsersTransactionMakesTheRelayLook for a while, as its commit is not seen.
func TestAWriteInAUsersTransactionMakesTheRelayLook(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		start(t, g, pub, asleep(5*time.Millisecond))
		idle(t, g, pub)
		for _, payload := range []string{"x", "y"} {
			require.NoError(t, g.Transaction(func(tx *gorm.DB) error { return gormoutbox.Append(tx, event("k", payload)) }))
			pub.waitFor(t, payload)
		}
	})
}

// TestWithoutASignalPollingIsTheTruth: another process writes.
func TestWithoutASignalPollingIsTheTruth(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		elsewhere := db.Open(t)
		require.NoError(t, elsewhere.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
		pub := newRecorder()
		start(t, g, pub, relay.Config{MaxPoll: 20 * time.Millisecond})
		add(t, elsewhere, event("k", "x"))
		pub.waitFor(t, "x")
	})
}

// TestTheRelayIsWokenByThePluginOfItsTable where there are several.
func TestTheRelayIsWokenByThePluginOfItsTable(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	for _, name := range []string{"one", "two"} {
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Name: name, Table: name + "_events", Logger: quiet})))
	}
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	_, err := relay.New(g, newRecorder(), relay.Config{})
	assert.Equal(t, []string{"Table"}, problems(t, err), "which one?")
	for _, name := range []string{"one", "two"} {
		pub := newRecorder()
		c := asleep(time.Hour)
		c.Table = name + "_events"
		start(t, g, pub, c)
		plugin := g.Plugins[name].(*gormoutbox.Plugin)
		require.NoError(t, plugin.Append(g, event("k", name+"0")))
		pub.waitFor(t, name+"0")
		require.NoError(t, plugin.Append(g, event("k", name+"1")))
		pub.waitFor(t, name+"1")
		assert.Len(t, pub.payloads(), 2, "none of the other outbox")
	}
}
