package pgwake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

func TestANotificationWakesEverySubscriber(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	c.Channel = `Quoted "channel"; ` + c.Channel[:20]
	l, first := startListener(t, c)
	assert.Equal(t, c.Channel, l.Channel())
	second, gone := l.Subscribe(), l.Subscribe()
	l.Unsubscribe(gone)
	sender := raw(t, db.DSN)
	for range 3 {
		notify(t, sender, c.Channel, "")
		received(t, first)
		received(t, second)
	}
	assert.Empty(t, gone)
}

// TestASubscriberThatDoesNotReceive holds up nobody.
func TestASubscriberThatDoesNotReceive(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	l, first := startListener(t, c)
	lazy := l.Subscribe()
	sender := raw(t, db.DSN)
	for range 10 {
		notify(t, sender, c.Channel, "")
		received(t, first)
	}
	assert.Len(t, lazy, 1)
}

// TestTheListenerComesBack when the server ends its session.
func TestTheListenerComesBack(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	c := config(db.DSN)
	l, ch := startListener(t, c)
	admin := raw(t, db.DSN)
	var killed int
	require.NoError(t, admin.QueryRow(t.Context(),
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'", c.Channel).Scan(&killed))
	require.Equal(t, 1, killed)
	received(t, ch) // for what was missed
	hears(t, l, ch, c, db)
}

// hears checks that a listener is healthy again and notifications arrive.
func hears(t testing.TB, l *pgwake.Listener, ch <-chan struct{}, c pgwake.Config, db testenv.Database) {
	t.Helper()
	healthy(t, l)
	drain(ch)
	notify(t, raw(t, db.DSN), c.Channel, "")
	received(t, ch)
}

func TestTheListenerComesBackThroughABadNetwork(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*proxy){
		"cut":    (*proxy).cut,
		"silent": (*proxy).mute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			p := newProxy(t, db.DSN)
			c := impatient(p.dsn)
			errs := make(chan error, 100)
			c.OnError = func(err error) { errs <- err }
			l, ch := startListener(t, c)
			p.refuse.Store(true)
			trouble(p)
			eventually(t, "noticed", func() bool { s := l.Status(); return !s.Connected && !s.Healthy && s.Err != nil })
			require.ErrorContains(t, <-errs, "pgwake: ")
			p.refuse.Store(false)
			received(t, ch)
			hears(t, l, ch, c, db)
		})
	}
}

func TestTheListenerWaitsForTheServer(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	p := newProxy(t, db.DSN)
	p.refuse.Store(true)
	c := impatient(p.dsn)
	errs := make(chan error, 10_000)
	c.OnError = func(err error) { errs <- err }
	l, err := pgwake.NewListener(c)
	require.NoError(t, err)
	ch := l.Subscribe()
	run(t, l)
	for range 3 {
		require.ErrorContains(t, <-errs, "pgwake: connecting")
	}
	p.refuse.Store(false)
	received(t, ch)
	hears(t, l, ch, c, db)
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	l, _ := startListener(t, config(db.DSN))
	require.ErrorIs(t, l.Run(t.Context()), pgwake.ErrRunning)
	n, stop := startNotifier(t, outbox(t, db, quietPlugin), config(db.DSN))
	stop()
	require.ErrorIs(t, n.Run(t.Context()), pgwake.ErrRunning)
	assert.Equal(t, pgwake.Status{}, n.Status())
}

// TestStoppingWithASilentServer leaves nothing behind; TestMain looks for goroutines.
func TestStoppingWithASilentServer(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	p := newProxy(t, db.DSN)
	c := config(p.dsn)
	l, err := pgwake.NewListener(c)
	require.NoError(t, err)
	stop := run(t, l)
	healthy(t, l)
	p.mute()
	stop()
	assert.Equal(t, pgwake.Status{}, l.Status())
}
