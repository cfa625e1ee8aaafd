package kafka

import (
	"context"
	"sync"

	"github.com/IBM/sarama"
)

// connection opens a generation when one is needed, and the next one when it
// has been shut. It is safe for concurrent use.
type connection struct {
	brokers []string
	config  *sarama.Config
	strict  bool

	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	last    *attempt
}

// attempt is an attempt at opening a generation, shared by all who wait for one.
type attempt struct {
	done       chan struct{}
	generation *generation
	err        error
}

// over says that another attempt is needed.
func (a *attempt) over() bool {
	select {
	case <-a.done:
		return a.err != nil || a.generation.isDown()
	default:
		return false
	}
}

// get returns the generation. The attempt goes on for others if ctx ends.
func (c *connection) get(ctx context.Context) (*generation, error) {
	a, err := c.attempt()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.generation, a.err
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

func (c *connection) attempt() (*attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.last != nil && !c.last.over() {
		return c.last, nil
	}
	a := &attempt{done: make(chan struct{})}
	c.last = a
	c.running.Go(func() {
		defer close(a.done)
		a.generation, a.err = open(c.brokers, c.config, c.strict, &c.running)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed && a.err == nil {
			a.generation.shut()
		}
	})
	return a, nil
}

// close shuts the generation. The channel that it returns is closed when all
// generations have ended.
func (c *connection) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.last != nil && !c.last.over() {
		select {
		case <-c.last.done:
			c.last.generation.shut()
		default: // the attempt sees to it
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.running.Wait()
	}()
	return ended
}
