package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// TestTheRouterStartsAndDrainsTheRelay, with which alone it ends, too.
func TestTheRouterStartsAndDrainsTheRelay(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *message.Router, context.CancelFunc){
		"close":  func(t *testing.T, r *message.Router, _ context.CancelFunc) { t.Helper(); assert.NoError(t, r.Close()) },
		"cancel": func(_ *testing.T, _ *message.Router, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, db testenv.Database) {
				g := open(t, db)
				entered, leave := make(chan struct{}), make(chan struct{})
				pub := newRecorder()
				pub.fail = func(string, *message.Message) error { close(entered); <-leave; return nil }
				r, err := relay.New(g, pub, relay.Config{Logger: quiet})
				require.NoError(t, err)
				router, err := message.NewRouter(message.RouterConfig{CloseTimeout: time.Minute}, watermill.NopLogger{})
				require.NoError(t, err)
				router.AddPlugin(r.RouterPlugin)
				add(t, g, event("k", "x"))

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- router.Run(ctx) }()
				<-entered
				ended := make(chan struct{})
				go func() { end(t, router, cancel); close(ended) }()
				select {
				case err := <-done:
					t.Errorf("Run returned %v with a publish in flight", err)
				case <-time.After(100 * time.Millisecond): // it has every chance to
				}
				close(leave)
				<-ended
				require.NoError(t, <-done)
				assert.True(t, states(t, g)["x"].Processed)
				assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_partitions WHERE owner <> ''"), "drained before Run returned")
			})
		})
	}
}

func TestTheRouterSaysThatTablesAreMissing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		r, err := relay.New(db.Open(t), newRecorder(), relay.Config{Logger: quiet})
		require.NoError(t, err)
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		require.NoError(t, err)
		router.AddPlugin(r.RouterPlugin)
		var schema *gormoutbox.SchemaError
		assert.ErrorAs(t, router.Run(t.Context()), &schema)
	})
}

func TestTheRouterPluginWithoutARouter(t *testing.T) {
	t.Parallel()
	r, err := relay.New(open(t, testenv.SQLite(t)), newRecorder(), relay.Config{Logger: quiet})
	require.NoError(t, err)
	assert.Equal(t, []string{"router"}, problems(t, r.RouterPlugin(nil)))
}
