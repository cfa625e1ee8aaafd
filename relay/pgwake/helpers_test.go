package pgwake_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// patience is when a test gives up waiting.
const patience = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// config is for a channel that no other test has: channels belong to the whole database.
func config(dsn string) pgwake.Config {
	return pgwake.Config{
		ConnString: dsn, Channel: "wake " + uuid.NewString(), Logger: quiet,
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
}

// impatient notices a connection that is dead, or an ear that is deaf, soon.
func impatient(dsn string) pgwake.Config {
	c := config(dsn)
	c.PingInterval, c.Timeout, c.RetestInterval = 20*time.Millisecond, 500*time.Millisecond, 20*time.Millisecond
	return c
}

type runner interface {
	Run(ctx context.Context) error
}

// run runs until stop is called.
func run(t testing.TB, r runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			assert.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	return stop
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 5*time.Millisecond, what)
}

type observed interface{ Status() pgwake.Status }

func healthy(t testing.TB, s observed) {
	t.Helper()
	eventually(t, "healthy", func() bool { return s.Status().Healthy })
	assert.Equal(t, pgwake.Status{Connected: true, Healthy: true}, s.Status())
}

// startListener runs a listener until it hears, and takes the signal of its connection.
func startListener(t testing.TB, c pgwake.Config) (*pgwake.Listener, <-chan struct{}) {
	t.Helper()
	l, err := pgwake.NewListener(c)
	require.NoError(t, err)
	ch := l.Subscribe()
	run(t, l)
	healthy(t, l)
	received(t, ch)
	return l, ch
}

func startNotifier(t testing.TB, g *gorm.DB, c pgwake.Config) (n *pgwake.Notifier, stop func()) {
	t.Helper()
	plugin, err := gormoutbox.On(g)
	require.NoError(t, err)
	n, err = pgwake.NewNotifier(plugin, c)
	require.NoError(t, err)
	stop = run(t, n)
	healthy(t, n)
	return n, stop
}

func received(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		require.Fail(t, "no signal")
	}
}

// drain takes a signal that waits.
func drain(ch <-chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

// raw is a plain connection.
func raw(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	return conn
}

func notify(t testing.TB, conn *pgx.Conn, channel, payload string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, payload)
	require.NoError(t, err)
}

// ear is a connection that listens.
func ear(t testing.TB, dsn string, channels ...string) *pgx.Conn {
	t.Helper()
	conn := raw(t, dsn)
	for _, channel := range channels {
		_, err := conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
		require.NoError(t, err)
	}
	return conn
}

func next(t testing.TB, ear *pgx.Conn) *pgconn.Notification {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := ear.WaitForNotification(ctx)
	require.NoError(t, err)
	return n
}

// until returns the notifications that were sent before one that is sent now.
func until(t testing.TB, dsn string, ear *pgx.Conn, channel string) []*pgconn.Notification {
	t.Helper()
	notify(t, raw(t, dsn), channel, "end")
	var all []*pgconn.Notification
	for {
		n := next(t, ear)
		if n.Payload == "end" {
			return all
		}
		all = append(all, n)
	}
}

// outbox opens a pool with a plugin of its own, as another process would have.
func outbox(t testing.TB, db testenv.Database, c gormoutbox.Config) *gorm.DB {
	t.Helper()
	g := db.Open(t)
	use(t, g, c)
	return g
}

func use(t testing.TB, g *gorm.DB, c gormoutbox.Config) {
	t.Helper()
	c.Logger = quiet
	require.NoError(t, g.Use(gormoutbox.New(c)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
}

func event(payload string) gormoutbox.Event {
	return gormoutbox.Event{AggregateType: "a", AggregateID: "k", Type: "a.happened", Payload: payload}
}

func write(t testing.TB, g *gorm.DB, payload string) {
	t.Helper()
	require.NoError(t, gormoutbox.Append(g, event(payload)))
}
