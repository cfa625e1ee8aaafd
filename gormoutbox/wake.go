package gormoutbox

import "sync"

// Subscription tells a relay in the same process that events were written.
// Polling remains the truth: a signal may come without an event, and events of
// other processes come without a signal.
type Subscription struct {
	committed chan struct{}
	pending   chan struct{}
	hub       *hub
}

// Committed receives after a commit that wrote events; several may be one signal.
func (s *Subscription) Committed() <-chan struct{} { return s.committed }

// Pending receives when events were written in a transaction whose commit the
// plugin will not see.
func (s *Subscription) Pending() <-chan struct{} { return s.pending }

// Close ends the subscription. The channels are not closed.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

// Subscribe returns a subscription to the writes through this plugin on every
// *gorm.DB that it is registered on. It is safe for concurrent use.
func (p *Plugin) Subscribe() *Subscription {
	s := &Subscription{committed: make(chan struct{}, 1), pending: make(chan struct{}, 1), hub: &p.hub}
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if p.hub.subs == nil {
		p.hub.subs = map[*Subscription]struct{}{}
	}
	p.hub.subs[s] = struct{}{}
	return s
}

// hub passes signals on without ever waiting for a subscriber.
type hub struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
	// watched are the transactions of users whose end will be seen, *watch by pool.
	watched sync.Map
}

func (h *hub) wake(committed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		ch := s.pending
		if committed {
			ch = s.committed
		}
		select {
		case ch <- struct{}{}:
		default: // a signal waits there already
		}
	}
}
