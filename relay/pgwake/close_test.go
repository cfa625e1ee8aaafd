package pgwake_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// dials counts the connections of a Config that are made and closed.
type dials struct{ made, closed atomic.Int64 }

func (d *dials) count(t testing.TB, c *pgwake.Config) {
	t.Helper()
	parsed, err := pgx.ParseConfig(c.ConnString)
	require.NoError(t, err)
	c.ConnString, c.ConnConfig = "", parsed
	dial := parsed.DialFunc
	parsed.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d.made.Add(1)
		return &dialled{Conn: conn, dials: d}, nil
	}
}

type dialled struct {
	net.Conn
	dials *dials
	once  sync.Once
}

func (c *dialled) Close() error {
	c.once.Do(func() { c.dials.closed.Add(1) })
	return c.Conn.Close()
}

// TestEveryConnectionIsClosed when Run returns, those that failed on the way included.
func TestEveryConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*proxy){
		"none":   func(*proxy) {},
		"cut":    (*proxy).cut,
		"silent": (*proxy).mute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			g := outbox(t, db, quietPlugin)
			for who, start := range map[string]func(pgwake.Config) (observed, func()){
				"listener": func(c pgwake.Config) (observed, func()) {
					l, err := pgwake.NewListener(c)
					require.NoError(t, err)
					stop := run(t, l)
					healthy(t, l)
					return l, stop
				},
				"notifier": func(c pgwake.Config) (observed, func()) {
					return startNotifier(t, g, c)
				},
			} {
				p := newProxy(t, db.DSN)
				c := impatient(p.dsn)
				var d dials
				d.count(t, &c)
				o, stop := start(c)
				before := p.count()
				trouble(p)
				if name != "none" {
					eventually(t, "another connection", func() bool { return p.count() > before })
				}
				healthy(t, o)
				stop()
				assert.Positive(t, d.made.Load())
				assert.Equal(t, d.made.Load(), d.closed.Load(), who)
			}
		})
	}
}
