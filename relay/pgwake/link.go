package pgwake

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// goodbye is how long closing a connection in good order may take.
const goodbye = time.Second

// link is a connection that is used by one goroutine. No call on it takes longer than timeout plus
// goodbye, whatever the network does, and nothing of it is left after close: pgconn by itself would go on in
// the background, for 15 s, to cancel a query on a server that does not answer.
type link struct {
	conn    *pgconn.PgConn
	timeout time.Duration
	wire    *wire
	// notes arrived and are not handed out yet.
	notes []*pgconn.Notification
}

// open connects within timeout.
func open(ctx context.Context, config *pgx.ConnConfig, timeout time.Duration) (*link, error) {
	l := &link{timeout: timeout, wire: &wire{}}
	c := config.Config.Copy()
	c.DialFunc = l.wire.dialer(c.DialFunc)
	c.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { l.notes = append(l.notes, n) }
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errNoAnswer)
	defer cancel()
	conn, err := pgconn.ConnectConfig(limited, c)
	if err != nil {
		l.wire.cut()
		return nil, err
	}
	l.conn = conn
	return l, nil
}

// close is safe for a link that is broken.
func (l *link) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(goodbye, l.timeout))
	defer cancel()
	_ = l.conn.Close(ctx) // nothing hangs on it
	l.wire.cut()
	<-l.conn.CleanupDone()
}

// within runs a request and cuts the link if there is no answer in time or ctx ends.
func (l *link) within(ctx context.Context, request func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, l.timeout, errNoAnswer)
	defer cancel()
	done := make(chan struct{})
	stop := context.AfterFunc(limited, func() {
		defer close(done)
		l.wire.cut()
	})
	err := request(context.WithoutCancel(ctx))
	if stop() {
		return err
	}
	<-done
	if err != nil {
		return context.Cause(limited)
	}
	return nil
}

// exec sends statements without arguments, which a pooler in transaction mode passes on, too.
func (l *link) exec(ctx context.Context, sql string) error {
	return l.within(ctx, func(ctx context.Context) error {
		_, err := l.conn.Exec(ctx, sql).ReadAll()
		return err
	})
}

// ping is a round trip.
func (l *link) ping(ctx context.Context) error { return l.exec(ctx, "-- ping") }

// notify does not wait for the disk: a notification writes nothing that would have to outlast a crash, but
// the lock that PostgreSQL takes for it is kept until its commit is flushed. One statement, unprepared,
// works through poolers of every mode.
func (l *link) notify(ctx context.Context, channel, payload string) error {
	return l.within(ctx, func(ctx context.Context) error {
		return l.conn.ExecParams(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)",
			[][]byte{[]byte(channel), []byte(payload)}, nil, nil, nil).Read().Err
	})
}

// wait returns the next notification, or nil if there was none for d.
func (l *link) wait(ctx context.Context, d time.Duration) (*pgconn.Notification, error) {
	if len(l.notes) == 0 {
		limited, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		if err := l.conn.WaitForNotification(limited); err != nil {
			if ctx.Err() == nil && limited.Err() != nil && !l.conn.IsClosed() {
				return nil, nil // it was only quiet
			}
			return nil, err
		}
	}
	if len(l.notes) == 0 {
		return nil, nil
	}
	n := l.notes[0]
	l.notes = l.notes[1:]
	return n, nil
}

// wire are the network connections of a link. After cut there are none and no new ones.
type wire struct {
	mu    sync.Mutex
	gone  bool
	conns []net.Conn
	dials []context.CancelFunc // calling one that is over does nothing
}

var errCut = errors.New("the connection was given up")

func (w *wire) dialer(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !w.begin(cancel) {
			return nil, errCut
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.gone {
			conn.Close()
			return nil, errCut
		}
		w.conns = append(w.conns, conn)
		return conn, nil
	}
}

func (w *wire) begin(cancel context.CancelFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials = append(w.dials, cancel)
	return !w.gone
}

// cut may be called by any goroutine and more than once.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, cancel := range w.dials {
		cancel()
	}
	for _, conn := range w.conns {
		conn.Close()
	}
	w.dials, w.conns = nil, nil
}
