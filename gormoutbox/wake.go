package gormoutbox

import (
	"database/sql"
	"sync"

	"gorm.io/gorm"
)

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

// Transaction is db.Transaction that wakes the relays of this process after the
// commit. Without it they find the events of a transaction by polling, which
// is fast for about a second after a write. Without a plugin on db it returns
// ErrNotRegistered and runs nothing.
func Transaction(db *gorm.DB, fn func(tx *gorm.DB) error, opts ...*sql.TxOptions) error {
	if db == nil || db.Config == nil {
		return &ConfigError{Field: "db", Cause: "it is nil", Cure: "pass an open *gorm.DB"}
	}
	if fn == nil {
		return &ConfigError{Field: "fn", Cause: "it is nil", Cure: "pass the function that writes"}
	}
	plugins := pluginsOf(db)
	if len(plugins) == 0 {
		return ErrNotRegistered
	}
	if err := db.Transaction(fn, opts...); err != nil {
		return err
	}
	_, nested := transactionOf(db.Statement.ConnPool)
	for _, p := range plugins {
		p.hub.wake(!nested)
	}
	return nil
}
