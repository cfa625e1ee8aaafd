package testenv

import (
	"context"
	"net"
	"sync"
	"testing"
)

// RoundTrips counts round trips to a server.
//
// On a connection, a round trip begins with the first byte that the client
// sends after the server's last (or after connecting), and is counted when
// the first byte of the server's answer arrives, before the client gets it.
// So:
//
//   - what the client has an answer to is counted, whenever Count is called;
//   - requests that are sent without waiting for the answers between them
//     (a pipeline) are one round trip, if the server begins to answer after
//     the last of them;
//   - a message without an answer, such as a goodbye or MySQL's closing of a
//     prepared statement, is none of its own, and what the server says
//     unasked, such as MySQL's greeting, is none.
//
// The counts of all connections, also of those that are closed, are added up.
// Bytes are counted as they are on the wire, so TLS makes no difference but
// for its handshake.
type RoundTrips struct {
	addr string

	mu    sync.Mutex
	count int
}

// CountRoundTrips starts a proxy on 127.0.0.1 in front of a server, whose
// address is as for net.Dial. Both are cut off at the end of the test, after
// the pools that the test opens later are closed.
func CountRoundTrips(t testing.TB, network, address string) *RoundTrips {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("counting round trips: %v", err)
	}
	trips := &RoundTrips{addr: listener.Addr().String()}

	// The pools say goodbye after the test's own context is done.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // Accept sees that it is closed.
		cancel()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer client.Close()
				server, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					t.Logf("counting round trips: %v", err)
					return
				}
				defer server.Close()
				trips.serve(ctx, client, server)
			})
		}
	})
	return trips
}

// Addr is where the proxy listens, as host:port.
func (r *RoundTrips) Addr() string { return r.addr }

// Count returns the number of round trips since the beginning or the last
// Reset.
func (r *RoundTrips) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Reset sets the count to zero. A round trip that waits for its answer will
// count.
func (r *RoundTrips) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count = 0
}

// serve forwards between client and server until both are silent.
func (r *RoundTrips) serve(ctx context.Context, client, server net.Conn) {
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()

	asked := false // guarded by r.mu
	var wg sync.WaitGroup
	wg.Go(func() {
		forward(server, client, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			asked = true
		})
	})
	wg.Go(func() {
		forward(client, server, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if asked {
				r.count++
			}
			asked = false
		})
	})
	wg.Wait()
}

// forward copies from one end to the other. It calls note before it passes
// anything on: whoever reacts to a byte reacts to one that was noted.
func forward(to, from net.Conn, note func()) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			note()
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	// Closing all of it could make to miss what it has not read yet.
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}
