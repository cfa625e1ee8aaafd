package scenarios_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gormoutbox/outbox/internal/testenv"
)

const partitions = 6

// broker is a Kafka with a topic, which can go away and come back.
type broker struct {
	address string
	topic   string
	// wire is how publishers reach it.
	wire *wire
	// away returns when nobody can reach it, back when it answers again.
	away, back func(t *testing.T)
}

// newBroker returns a broker of the test's own that is killed, or, in the small size, the way to the shared one, which is
// cut: a broker takes some seconds to start.
func newBroker(t *testing.T) *broker {
	t.Helper()
	if full() {
		return newProcess(t)
	}
	shared := testenv.Kafka(t)
	w := &wire{}
	return &broker{
		address: shared.Addrs[0], topic: shared.Topic(t, "away", partitions), wire: w,
		away: func(*testing.T) { w.cut() }, back: func(*testing.T) { w.mend() },
	}
}

// wire is a dialer whose connections can be cut.
type wire struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// Dial implements proxy.Dialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, 4*time.Second)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: net.ErrClosed}
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// cut breaks all connections and refuses new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, conn := range w.conns {
		conn.Close()
	}
	w.conns = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}
