package scenarios_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
)

// slot is a place for a relay, with a pool and a publisher of its own.
type slot struct {
	db        *gorm.DB
	publisher message.Publisher
	leave     context.CancelFunc // nil while there is no relay that was not told to leave
	left      chan error         // gets what Run returned; nil while there is no relay
}

// slots are relays that join and leave.
type slots struct {
	all           []*slot
	config        relay.Config
	random        *rand.Rand
	joined, leave int
	most          int
}

// staying is how many relays were not told to leave.
func (s *slots) staying() int {
	n := 0
	for _, one := range s.all {
		if one.leave != nil {
			n++
		}
	}
	return n
}

// join starts a relay in a slot, when the one before is gone.
func (s *slots) join(t *testing.T, n int) {
	t.Helper()
	one := s.all[n]
	s.gone(t, one)
	s.joined++
	config := s.config
	config.ID, config.Logger = fmt.Sprintf("slot %d, relay %d", n, s.joined), quiet
	r, err := relay.New(one.db, one.publisher, config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- r.Run(ctx) }()
	one.leave, one.left = cancel, left
	s.most = max(s.most, s.staying())
}

// gone returns when there is no relay in a slot that was told to leave.
func (s *slots) gone(t *testing.T, one *slot) {
	t.Helper()
	if one.left != nil {
		assert.NoError(t, <-one.left)
		one.left = nil
	}
}

// change lets a relay join or leave. One that leaves is not waited for, and one stays in any case.
func (s *slots) change(t *testing.T) {
	t.Helper()
	n := s.random.IntN(len(s.all))
	switch one := s.all[n]; {
	case one.leave == nil:
		s.join(t, n)
	case s.staying() > 1:
		s.leave++
		one.leave()
		one.leave = nil
	}
}

// run changes the slots at intervals until done is closed.
func (s *slots) run(t *testing.T, interval time.Duration, done <-chan struct{}) {
	t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			for range 1 + s.random.IntN(2) {
				s.change(t)
			}
		}
	}
}

// stop ends all relays.
func (s *slots) stop(t *testing.T) {
	t.Helper()
	for _, one := range s.all {
		if one.leave != nil {
			one.leave()
			one.leave = nil
		}
	}
	for _, one := range s.all {
		s.gone(t, one)
	}
}
