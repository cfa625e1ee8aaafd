package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// RouterPlugin ties the relay to a Watermill router: it starts with the router's
// Run and is drained before that returns, however the router is stopped. Use it
// as router.AddPlugin(r.RouterPlugin). The relay shows as a consumer handler
// named "gormoutbox_relay_<ID>", which never gets a message. The router's Run returns an
// error if the tables are not what the relay needs; a relay whose Run ends with an error later ends that handler.
//
// The router's CloseTimeout must be longer than Config.ShutdownTimeout.
func (r *Relay) RouterPlugin(router *message.Router) error {
	if router == nil {
		return &ConfigError{"router", "it is nil", "pass a Watermill router"}
	}
	// Not in Subscribe, whose error leaves goroutines of the router behind. A database that is away does
	// not keep the router from starting; Run waits for it.
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := r.mismatch(ctx); err != nil {
		return err
	}
	router.AddConsumerHandler("gormoutbox_relay_"+r.config.ID, r.config.Table, &lifecycle{relay: r, done: make(chan struct{})},
		func(*message.Message) error { return nil })
	return nil
}

// checkTimeout bounds the look at the tables before a router starts, since a plugin gets no context.
const checkTimeout = 10 * time.Second

// lifecycle is a subscriber without messages, since a router starts, stops and
// waits for subscribers, while a plugin by itself hears of nothing.
type lifecycle struct {
	relay *Relay

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned; set once Subscribe has run
}

var _ message.Subscriber = (*lifecycle)(nil)

// Subscribe starts the relay. The channel closes when it has ended.
func (l *lifecycle) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("relay: the router is closed")
	}
	if l.cancel != nil {
		return nil, ErrRunning
	}
	ctx, l.cancel = context.WithCancel(ctx)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		defer close(l.done)
		if err := l.relay.Run(ctx); err != nil {
			l.relay.log(ctx, slog.LevelError, "relay ended", err)
		}
	}()
	return out, nil
}

// Close stops the relay and waits until it has.
func (l *lifecycle) Close() error {
	l.mu.Lock()
	l.closed = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	<-l.done
	return nil
}
