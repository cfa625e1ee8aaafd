package pgwake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gormoutbox/outbox/internal/pause"
)

// testPrefix begins the payload of a test. Listeners ignore every payload but their own test's.
const testPrefix = "test:"

// Listener passes the notifications of an outbox's channel on to relays in this process. Its methods are safe for concurrent use.
type Listener struct {
	config  Config
	conn    *pgx.ConnConfig
	state   tracker
	started atomic.Bool

	mu   sync.Mutex
	subs map[<-chan struct{}]chan<- struct{}
}

// NewListener returns a listener. It makes no connection and starts nothing. All mistakes are returned together, as *ConfigError.
func NewListener(config Config) (*Listener, error) {
	config = config.withDefaults()
	conn, err := config.check()
	if err != nil {
		return nil, err
	}
	return &Listener{
		config: config, conn: conn, subs: map[<-chan struct{}]chan<- struct{}{},
		state: tracker{logger: config.Logger, onError: config.OnError, channel: config.Channel},
	}, nil
}

// Subscribe returns a channel for relay.Config.Wake. It has a buffer of one, so several notifications may be one
// value, and no subscriber holds up another. It also receives after each connection, since notifications may
// have been missed before. Each relay needs a channel of its own. It may be called before and during Run.
func (l *Listener) Subscribe() <-chan struct{} {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs[ch] = ch
	return ch
}

// Unsubscribe ends a subscription, for relays that stop before the listener does. The channel is not closed.
func (l *Listener) Unsubscribe(ch <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subs, ch)
}

// Channel returns the name of the PostgreSQL channel.
func (l *Listener) Channel() string { return l.config.Channel }

// Status tells whether notifications arrive.
func (l *Listener) Status() Status { return l.state.get() }

// Run listens until ctx ends, then returns nil; nothing of it is left then. It never gives up: without a server it tries again
// with pauses between Config.MinBackoff and Config.MaxBackoff, and if it does not hear, every Config.RetestInterval. It
// returns ErrRunning if it was called before, and no other error.
func (l *Listener) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer l.state.stopped()
	for failures := 1; ; failures++ {
		worked, err := l.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.state.failed(ctx, err, false)
		if worked {
			failures = 1
		}
		wait := pause.Backoff(l.config.MinBackoff, l.config.MaxBackoff, failures)
		if errors.Is(err, ErrDeaf) {
			wait = pause.Spread(l.config.RetestInterval)
		}
		if !pause.Sleep(ctx, wait) {
			return nil
		}
	}
}

// session is the life of one connection. It tells whether it passed its test, and why it ended.
func (l *Listener) session(ctx context.Context) (worked bool, _ error) {
	link, err := open(ctx, l.conn, l.config.Timeout)
	if err != nil {
		return false, fmt.Errorf("pgwake: connecting: %w", err)
	}
	defer link.close(ctx)
	name := pgx.Identifier{l.config.Channel}.Sanitize()
	if err := link.exec(ctx, "LISTEN "+name); err != nil {
		return false, fmt.Errorf("pgwake: listening: %w", err)
	}
	l.state.connected()
	l.wake() // for what was missed

	next := time.Now() // time of the next test
	for {
		quiet := l.config.PingInterval
		if !worked {
			if !time.Now().Before(next) {
				err := l.test(ctx, link)
				switch {
				case err == nil:
					worked = true
					l.state.healthy(ctx)
				case errors.As(err, new(*untestedError)):
					if ctx.Err() != nil {
						return false, err
					}
					l.state.failed(ctx, err, true)
					next = time.Now().Add(pause.Spread(l.config.RetestInterval))
				case errors.Is(err, ErrDeaf):
					// The server's connection goes back to the pool, where its notifications would burden others.
					_ = link.exec(ctx, "UNLISTEN "+name) // the next one may meet another
					return false, err
				default:
					return false, err
				}
			}
			if !worked {
				quiet = min(quiet, time.Until(next))
			}
		}
		n, err := link.wait(ctx, max(quiet, time.Millisecond))
		if err != nil {
			return worked, fmt.Errorf("pgwake: waiting for notifications: %w", err)
		}
		if n != nil {
			l.receive(n)
			continue
		}
		if err := link.ping(ctx); err != nil {
			return worked, fmt.Errorf("pgwake: testing a silent connection: %w", err)
		}
	}
}

// test sends a notification to this listener and waits for it. The sender must be another connection: one
// that a pooler lends for the statement may be the one that listens, and would hear itself.
func (l *Listener) test(ctx context.Context, link *link) error {
	payload := testPrefix + uuid.NewString()
	if err := l.send(ctx, payload); err != nil {
		return &untestedError{err}
	}
	end := time.Now().Add(l.config.Timeout)
	for {
		left := time.Until(end)
		if left <= 0 {
			return ErrDeaf
		}
		n, err := link.wait(ctx, left)
		switch {
		case err != nil:
			return fmt.Errorf("pgwake: waiting for the test's notification: %w", err)
		case n == nil:
			// the time is over, or nearly so
		case n.Payload == payload:
			return nil
		default:
			l.receive(n)
		}
	}
}

// send notifies on a connection of its own.
func (l *Listener) send(ctx context.Context, payload string) error {
	link, err := open(ctx, l.conn, l.config.Timeout)
	if err != nil {
		return err
	}
	defer link.close(ctx)
	return link.notify(ctx, l.config.Channel, payload)
}

// receive ignores tests, its own that came too late and those of other listeners.
func (l *Listener) receive(n *pgconn.Notification) {
	if n.Channel == l.config.Channel && n.Payload == "" {
		l.wake()
	}
}

func (l *Listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.subs {
		select {
		case ch <- struct{}{}:
		default: // a signal waits there already
		}
	}
}
