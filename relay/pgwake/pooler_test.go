package pgwake_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// logs is a writer for concurrent use.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAListenerThatDoesNotHearSaysSo and hears when it can.
func TestAListenerThatDoesNotHearSaysSo(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	p := newProxy(t, db.DSN)
	p.deafen.Store(true)
	c := impatient(p.dsn)
	var out logs
	c.Logger = slog.New(slog.NewTextHandler(&out, nil))
	errs := make(chan error, 10_000)
	c.OnError = func(err error) { errs <- err }
	l, err := pgwake.NewListener(c)
	require.NoError(t, err)
	ch := l.Subscribe()
	run(t, l)
	for range 3 {
		require.ErrorIs(t, <-errs, pgwake.ErrDeaf)
		assert.False(t, l.Status().Healthy)
		require.ErrorIs(t, l.Status().Err, pgwake.ErrDeaf)
	}
	assert.Equal(t, 1, strings.Count(out.String(), "level=WARN"), "said once")
	assert.Contains(t, out.String(), "perhaps because of a transaction pooler")

	p.deafen.Store(false)
	hears(t, l, ch, c, db)
	assert.Equal(t, 1, strings.Count(out.String(), "level=INFO"))
}

// TestTestsDoNotWakeOthers: a test has a payload, a notification has none.
func TestTestsDoNotWakeOthers(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	_, ch := startListener(t, c)
	listening := ear(t, db.DSN, c.Channel)
	other, _ := startListener(t, c)
	healthy(t, other)
	n := next(t, listening)
	assert.True(t, strings.HasPrefix(n.Payload, "test:"), n.Payload)
	// A session gets notifications in their order: what the test did is done when this one has come.
	l := ear(t, db.DSN, c.Channel)
	notify(t, raw(t, db.DSN), c.Channel, "something else")
	assert.Equal(t, "something else", next(t, l).Payload)
	assert.Empty(t, ch)
}
