// Package lifecycle ties what runs in the background to a Watermill router.
package lifecycle

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

var (
	errClosed  = errors.New("the router is closed")
	errRunning = errors.New("the router has started it already")
)

// Subscriber is a subscriber without messages, since a router starts, stops and
// waits for subscribers, while a plugin by itself hears of nothing.
type Subscriber struct {
	run func(ctx context.Context)

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned; set once Subscribe has run
}

var _ message.Subscriber = (*Subscriber)(nil)

// New returns a Subscriber that calls run when the router starts, and ends its context and waits for it when the router closes.
func New(run func(ctx context.Context)) *Subscriber {
	return &Subscriber{run: run, done: make(chan struct{})}
}

// Subscribe implements message.Subscriber. The channel closes when run has returned.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.cancel != nil {
		return nil, errRunning
	}
	ctx, s.cancel = context.WithCancel(ctx)
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		defer close(s.done)
		s.run(ctx)
	}()
	return out, nil
}

// Close implements message.Subscriber.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	cancel := s.cancel
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	<-s.done
	return nil
}
