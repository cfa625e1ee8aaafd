package kafka

import (
	"errors"
	"net"
	"sync"

	"github.com/IBM/sarama"
)

// errFenced is what sarama gets from a network that has been shut.
var errFenced = errors.New("the producer was given up")

type dialer interface {
	Dial(network, address string) (net.Conn, error)
}

// fence is the network of one generation of the producer. Once shut it lets
// nothing through, whatever sarama does: order does not hang on how sarama winds up.
type fence struct {
	dialer dialer
	// gate is called before each write.
	gate func()

	shutting chan struct{}
	mu       sync.Mutex
	down     bool
	conns    map[net.Conn]struct{}
}

func newFence(config *sarama.Config) *fence {
	f := &fence{shutting: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	f.dialer = &net.Dialer{Timeout: config.Net.DialTimeout, KeepAlive: config.Net.KeepAlive, LocalAddr: config.Net.LocalAddr}
	if config.Net.Proxy.Enable {
		f.dialer = config.Net.Proxy.Dialer
	}
	return f
}

// Dial implements proxy.Dialer.
func (f *fence) Dial(network, address string) (net.Conn, error) {
	if f.isDown() {
		return nil, errFenced
	}
	conn, err := f.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down { // meanwhile
		conn.Close()
		return nil, errFenced
	}
	f.conns[conn] = struct{}{}
	return &fencedConn{Conn: conn, fence: f}, nil
}

// shut closes all connections and tells whether they were open. What was
// written before may still arrive.
func (f *fence) shut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return false
	}
	f.down = true
	close(f.shutting)
	for conn := range f.conns {
		conn.Close()
	}
	return true
}

func (f *fence) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

type fencedConn struct {
	net.Conn
	fence *fence
}

// Write implements net.Conn.
func (c *fencedConn) Write(b []byte) (int, error) {
	c.fence.gate()
	if c.fence.isDown() {
		return 0, errFenced
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *fencedConn) Close() error {
	c.fence.mu.Lock()
	delete(c.fence.conns, c.Conn)
	c.fence.mu.Unlock()
	return c.Conn.Close()
}
