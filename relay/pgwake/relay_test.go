package pgwake_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// publisher passes payloads on.
type publisher chan string

func (p publisher) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		p <- string(m.Payload)
	}
	return nil
}

func (p publisher) Close() error { return nil }

func (p publisher) wait(t testing.TB, payload string) {
	t.Helper()
	select {
	case got := <-p:
		assert.Equal(t, payload, got)
	case <-time.After(patience):
		require.Fail(t, "nothing was published", payload)
	}
}

// TestARelayIsWokenByAnotherProcess: it polls once and then, of itself, not for the length of a test.
func TestARelayIsWokenByAnotherProcess(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	here := outbox(t, db, quietPlugin)
	elsewhere := outbox(t, db, quietPlugin) // a pool and a plugin of its own, as another process has
	l, _ := startListener(t, c)

	published := make(publisher, 100)
	r, err := relay.New(here, published, relay.Config{
		Wake: l.Subscribe(), MinPoll: time.Hour, MaxPoll: time.Hour, Lease: 3 * time.Hour, Logger: quiet,
	})
	require.NoError(t, err)
	stopRelay := run(t, r)
	write(t, here, "first") // the relay has its partitions when this is out
	published.wait(t, "first")

	startNotifier(t, elsewhere, c)
	write(t, elsewhere, "own transaction")
	published.wait(t, "own transaction")
	require.NoError(t, elsewhere.Transaction(func(tx *gorm.DB) error { return gormoutbox.Append(tx, event("a user's")) }))
	published.wait(t, "a user's")
	require.NoError(t, gormoutbox.Transaction(elsewhere, func(tx *gorm.DB) error { return gormoutbox.Append(tx, event("ours")) }))
	published.wait(t, "ours")
	stopRelay()
}
