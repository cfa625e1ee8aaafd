package relay_test

import (
	"context"
	"fmt"
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

// TestRollingRestartsUnderLoad: always two relays, of which the older one stops.
func TestRollingRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		const restarts, keys = 10, 40
		g := open(t, db)
		pub := newRecorder()
		backlog := make(chan struct{}, 200) // a larger one says no more
		pub.fail = func(string, *message.Message) error {
			select {
			case <-backlog:
			default:
			}
			return nil
		}
		c := relay.Config{BatchSize: 50, Lease: 10 * time.Second}
		config := func(n int) relay.Config { c.ID = fmt.Sprint("relay", n); return c }
		stop := start(t, db.Open(t), pub, config(0))

		end, wrote := make(chan struct{}), make(chan int)
		go func() {
			total := 0
			defer func() { wrote <- total }()
			for v := 1; ; v++ {
				for k := range keys {
					select {
					case <-end:
						return
					case backlog <- struct{}{}:
					}
					if !assert.NoError(t, gormoutbox.Append(g, event(fmt.Sprint(k), fmt.Sprintf("%d:%d", k, v)))) {
						return
					}
					total++
				}
			}
		}()
		for n := range restarts {
			pub.wait(t, (n+1)*60)
			next := start(t, db.Open(t), pub, config(n+1))
			stop()
			stop = next
		}
		close(end)
		total := <-wrote
		pub.wait(t, total)
		stop()
		checkOrder(t, pub.payloads(), total)
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL OR attempts > 0"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> '' OR token <> '' OR expires_at IS NOT NULL"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_relays"))
	})
}

// running is a relay whose Run a test ends itself.
func running(t testing.TB, g *gorm.DB, pub message.Publisher, c relay.Config) (cancel context.CancelFunc, done <-chan error) {
	t.Helper()
	c.Logger = quiet
	r, err := relay.New(g, pub, c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ch := make(chan error, 1)
	go func() { ch <- r.Run(ctx) }()
	return cancel, ch
}

func TestAPublishThatHangsPastTheShutdownTimeout(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		entered, leave := make(chan struct{}), make(chan struct{})
		defer close(leave)
		pub := newRecorder()
		pub.fail = func(_ string, msg *message.Message) error {
			if string(msg.Payload) == "hung0" {
				close(entered)
				<-leave
			}
			return nil
		}
		add(t, g, event("k", "k0"))
		add(t, g, series("hung", "hung", 2)...)
		cancel, done := running(t, g, pub, relay.Config{ShutdownTimeout: 300 * time.Millisecond})
		<-entered
		pub.waitFor(t, "k0")
		cancel()
		require.ErrorIs(t, <-done, relay.ErrShutdownTimeout)
		assert.True(t, states(t, g)["k0"].Processed, "what had ended is recorded")
		assert.Equal(t, 2, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL AND attempts = 0"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "given back all the same")
	})
}

func TestAPublishInFlightIsFinishedAndRecorded(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		entered, leave := make(chan context.Context, 1), make(chan struct{})
		pub := newRecorder()
		pub.fail = func(_ string, msg *message.Message) error {
			entered <- msg.Context()
			<-leave
			return nil
		}
		add(t, g, series("k", "k", 2)...)
		cancel, done := running(t, g, pub, relay.Config{ShutdownTimeout: time.Minute})
		ctx := <-entered
		cancel()
		require.NoError(t, ctx.Err(), "a stop does not break off a publish")
		close(leave)
		require.NoError(t, <-done)
		assert.Equal(t, []string{"k0"}, pub.payloads(), "no further one is begun")
		assert.True(t, states(t, g)["k0"].Processed)
		assert.False(t, states(t, g)["k1"].Processed)
	})
}

// TestRunWaitsForItsDatabase, whose server may start later than the service.
func TestRunWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	g := db.Open(t)
	pool, err := g.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(1)
	held, err := pool.Conn(t.Context()) // as a pool that gives nothing
	require.NoError(t, err)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
	cancel, done := running(t, g, newRecorder(), relay.Config{})
	cancel()
	require.NoError(t, <-done, "a stop ends the wait")
	require.NoError(t, held.Close())
}
