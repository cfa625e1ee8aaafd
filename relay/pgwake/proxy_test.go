package pgwake_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// proxy stands between a client and the server, without TLS, and makes trouble.
type proxy struct {
	dsn    string
	server string
	// refuse hangs up on new connections, and deafen drops what LISTEN was for, as a pooler in
	// transaction mode does.
	refuse, deafen atomic.Bool

	mu    sync.Mutex
	links map[*proxied]struct{}
	total int
	wg    sync.WaitGroup
}

type proxied struct {
	client, server net.Conn
	mute           atomic.Bool
}

func newProxy(t testing.TB, dsn string) *proxy {
	t.Helper()
	parsed, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Host = listener.Addr().String()
	p := &proxy{
		dsn: u.String(), links: map[*proxied]struct{}{},
		server: net.JoinHostPort(parsed.Host, strconv.Itoa(int(parsed.Port))),
	}
	p.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		p.refuse.Store(true)
		listener.Close() //nolint:errcheck // Accept sees that it is closed.
		p.cut()
		p.wg.Wait()
	})
	return p
}

// cut hangs up on everybody.
func (p *proxy) cut() { p.each(func(l *proxied) { l.client.Close(); l.server.Close() }) }

// mute lets the connections there are go silent, in both directions.
func (p *proxy) mute() { p.each(func(l *proxied) { l.mute.Store(true) }) }

// count is how many connections were made.
func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (p *proxy) each(do func(*proxied)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	if p.refuse.Load() {
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	l := &proxied{client: client, server: server}
	p.mu.Lock()
	if p.refuse.Load() {
		p.mu.Unlock()
		return
	}
	p.links[l] = struct{}{}
	p.total++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer server.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			if l.mute.Load() {
				continue
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		defer client.Close()
		p.answers(l)
	})
	wg.Wait()
}

// answers passes on the server's messages one by one.
func (p *proxy) answers(l *proxied) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(l.server, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(l.server, body); err != nil {
			return
		}
		const notification = 'A'
		if l.mute.Load() || (head[0] == notification && p.deafen.Load()) {
			continue
		}
		if _, err := l.client.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}
