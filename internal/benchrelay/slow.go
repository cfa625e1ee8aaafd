package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// slowDialer connects through a proxy that delays all that it forwards. It is a dialer because Kafka's brokers say by themselves where they
// are, so that a client who only began at a proxy would go on without it.
//
// Of the proxy it is the delay that counts and not the rate: what arrives during a delay is forwarded after its own, and not after
// all delays before it.
type slowDialer struct {
	delay time.Duration // each way

	mu      sync.Mutex
	proxies map[string]*slowProxy // by the address behind
	closed  bool
}

var errClosed = errors.New("the proxy is closed")

// Dial implements the dialer of golang.org/x/net/proxy, which sarama takes.
func (s *slowDialer) Dial(network, address string) (net.Conn, error) {
	p, err := s.proxy(address)
	if err != nil {
		return nil, err
	}
	return net.Dial(network, p.listener.Addr().String())
}

func (s *slowDialer) proxy(address string) (*slowProxy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if p := s.proxies[address]; p != nil {
		return p, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", address, err)
	}
	p := &slowProxy{listener: listener, target: address, delay: s.delay, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.serve)
	if s.proxies == nil {
		s.proxies = map[string]*slowProxy{}
	}
	s.proxies[address] = p
	return p, nil
}

// close ends all connections and waits until nothing is left of them.
func (s *slowDialer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.proxies {
		p.close()
	}
}

// slowProxy forwards connections to one address.
type slowProxy struct {
	listener net.Listener
	target   string
	delay    time.Duration
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (p *slowProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close() //nolint:errcheck // it is not needed any more
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *slowProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.forward(client) })
	}
}

// add notes a connection that close has to end.
func (p *slowProxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *slowProxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *slowProxy) forward(client net.Conn) {
	defer p.remove(client)
	if !p.add(client) {
		return
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	to, err := dialer.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.remove(to)
	if !p.add(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pipe(to, client) })
	p.pipe(client, to)
	both.Wait()
}

// chunk is something on its way.
type chunk struct {
	data []byte
	due  time.Time
}

// pipe forwards one direction and then ends both.
func (p *slowProxy) pipe(to, from net.Conn) {
	const room = 1024 // chunks
	way := make(chan chunk, room)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(way)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				way <- chunk{buffer[:n], time.Now().Add(p.delay)}
			}
			if err != nil {
				return
			}
		}
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for c := range way {
		timer.Reset(time.Until(c.due))
		<-timer.C
		if _, err := to.Write(c.data); err != nil {
			from.Close()
			for range way { // until the reader has noticed
			}
		}
	}
	to.Close()
	wg.Wait()
}
