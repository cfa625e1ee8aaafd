package pgwake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/pause"
)

// Notifier tells other processes of the events that are written through a plugin. Its methods are safe for concurrent use.
type Notifier struct {
	config  Config
	conn    *pgx.ConnConfig
	plugin  *gormoutbox.Plugin
	state   tracker
	started atomic.Bool
}

// NewNotifier returns a notifier for the writes through the plugin, on every *gorm.DB that it is registered on. It makes no
// connection and starts nothing. All mistakes are returned together, as *ConfigError.
func NewNotifier(plugin *gormoutbox.Plugin, config Config) (*Notifier, error) {
	var errs []error
	if plugin == nil {
		errs = append(errs, &ConfigError{"plugin", "it is nil", "pass the value that gormoutbox.New returned, or see gormoutbox.On"})
	} else {
		table := plugin.Tables().Events
		if config.Table != "" && config.Table != table {
			errs = append(errs, &ConfigError{"Table", fmt.Sprintf("%q is not the plugin's, %q", config.Table, table), "leave it empty"})
		} else {
			config.Table = table
		}
	}
	config = config.withDefaults()
	conn, err := config.check()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return &Notifier{
		config: config, conn: conn, plugin: plugin,
		state: tracker{logger: config.Logger, onError: config.OnError, channel: config.Channel},
	}, nil
}

// Channel returns the name of the PostgreSQL channel.
func (n *Notifier) Channel() string { return n.config.Channel }

// Status tells whether the last notification was sent.
func (n *Notifier) Status() Status { return n.state.get() }

// Run notifies until ctx ends, sends what is then left to tell, once and within Config.Timeout, and returns nil; nothing of it is
// left then. It notifies once at its start, for what was written before. Without a server it tries again with pauses
// between Config.MinBackoff and Config.MaxBackoff; all that is written meanwhile becomes one notification. Writers
// never wait for it. It returns ErrRunning if it was called before, and no other error.
func (n *Notifier) Run(ctx context.Context) error {
	if !n.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer n.state.stopped()
	sub := n.plugin.Subscribe()
	defer sub.Close()
	s := &linkSender{config: n.config, conn: n.conn}
	defer s.drop(ctx)
	n.loop(ctx, sub.Committed(), sub.Pending(), s)
	return nil
}

// sender is what the loop tells when to do what.
type sender interface {
	// send notifies.
	send(ctx context.Context) error
	// ping tests the connection, if there is one.
	ping(ctx context.Context) error
	// drop closes the connection after an error.
	drop(ctx context.Context)
}

// loop waits until there is something to tell and it may be told.
func (n *Notifier) loop(ctx context.Context, committed, pending <-chan struct{}, s sender) {
	p := &pace{interval: n.config.Interval, dirty: true}
	failures := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	try := func(what func(context.Context) error) bool {
		err := what(ctx)
		if err == nil {
			failures = 0
			return true
		}
		s.drop(ctx)
		if ctx.Err() == nil {
			failures++
			n.state.failed(ctx, err, false)
		}
		p.failed(time.Now(), pause.Backoff(n.config.MinBackoff, n.config.MaxBackoff, max(failures, 1)))
		return false
	}
	active := time.Now()
	for {
		due, tell := p.due()
		if !tell {
			due = active.Add(n.config.PingInterval)
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			n.last(ctx, p, committed, pending, s, failures)
			return
		case <-committed:
			p.committed()
			continue
		case <-pending:
			p.pending(time.Now())
			continue
		case <-timer.C:
		}
		if !tell {
			try(s.ping)
			active = time.Now()
			continue
		}
		// A signal that came before this belongs to the notification; one that comes later makes another.
		begin := time.Now()
		if try(s.send) {
			p.sent(begin)
			n.state.healthy(ctx)
		}
		active = time.Now()
	}
}

// last tells what is left when ctx has ended, unless the server is away.
func (n *Notifier) last(ctx context.Context, p *pace, committed, pending <-chan struct{}, s sender, failures int) {
	select {
	case <-committed:
		p.committed()
	case <-pending:
		p.committed()
	default:
	}
	if _, tell := p.due(); !tell || failures > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.Timeout)
	defer cancel()
	if err := s.send(ctx); err != nil {
		n.state.failed(ctx, err, false)
	}
}

// linkSender connects when there is something to send.
type linkSender struct {
	config Config
	conn   *pgx.ConnConfig
	link   *link // nil without a connection
}

func (s *linkSender) send(ctx context.Context) error {
	if s.link == nil {
		link, err := open(ctx, s.conn, s.config.Timeout)
		if err != nil {
			return fmt.Errorf("pgwake: connecting: %w", err)
		}
		s.link = link
	}
	if err := s.link.notify(ctx, s.config.Channel, ""); err != nil {
		return fmt.Errorf("pgwake: notifying: %w", err)
	}
	s.link.notes = nil // other listeners of a pooled connection are told, not this one
	return nil
}

func (s *linkSender) ping(ctx context.Context) error {
	if s.link == nil {
		return nil
	}
	if err := s.link.ping(ctx); err != nil {
		return fmt.Errorf("pgwake: testing a silent connection: %w", err)
	}
	return nil
}

func (s *linkSender) drop(ctx context.Context) {
	if s.link != nil {
		s.link.close(ctx)
		s.link = nil
	}
}
