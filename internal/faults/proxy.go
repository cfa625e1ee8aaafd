//go:build linux

package main

import (
	"net"
	"sync"
	"time"
)

// trouble is what a proxy does to its connections.
type trouble struct {
	// cut closes them and accepts no new ones.
	cut bool
	// hole holds back what is sent.
	hole bool
	// delay is added to everything that is sent.
	delay time.Duration
}

// proxy forwards TCP connections, more or less.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex
	trouble trouble
	changed chan struct{} // closed at each change
	conns   map[net.Conn]struct{}
	closed  bool
}

// newProxy listens on 127.0.0.1 until close.
func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.serve)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// set changes the trouble. A cut closes what is open.
func (p *proxy) set(t trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = t
	close(p.changed)
	p.changed = make(chan struct{})
	if t.cut {
		p.closeAll()
	}
}

func (p *proxy) closeAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close() //nolint:errcheck // it is not needed any more
	p.closeAll()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if !p.add(c) {
			c.Close()
			continue
		}
		p.wg.Go(func() { p.forward(c) })
	}
}

// add notes a connection unless none may be made.
func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.trouble.cut {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *proxy) forward(client net.Conn) {
	defer p.remove(client)
	if !p.pass() {
		return
	}
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	if !p.add(server) {
		server.Close()
		return
	}
	defer p.remove(server)
	var wg sync.WaitGroup
	wg.Go(func() {
		p.copy(server, client)
		server.Close()
		client.Close()
	})
	p.copy(client, server)
	server.Close()
	client.Close()
	wg.Wait()
}

func (p *proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass returns when something may be sent, or false if nothing ever may.
func (p *proxy) pass() bool {
	for {
		p.mu.Lock()
		t, changed, closed := p.trouble, p.changed, p.closed
		p.mu.Unlock()
		switch {
		case closed || t.cut:
			return false
		case t.hole:
			<-changed
		case t.delay > 0:
			timer := time.NewTimer(t.delay)
			select {
			case <-timer.C:
				return true
			case <-changed:
				timer.Stop()
			}
		default:
			return true
		}
	}
}
