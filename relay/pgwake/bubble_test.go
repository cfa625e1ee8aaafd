package pgwake_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/relay/pgwake"
)

// pretended is a server in memory, for tests on the clock of a bubble. It knows what pgwake says and no more.
type pretended struct {
	// notified is called for each pg_notify and returns the payloads that listeners get, nil for no change.
	notified func(payload string) []string

	// hangs lets new connections neither be made nor fail, until a second after their contexts, and dialling counts them.
	hangs    atomic.Bool
	dialling atomic.Int64

	mu   sync.Mutex
	away bool
	// early are payloads that arrive before the answer to the next ping.
	early []string
	room  int // for connections in all, 0 for any number
	dials []time.Time
	ears  []*spoken
	all   []*spoken
	errs  []error
	// statements are those that were parsed, by their names and texts.
	statements [][2]string
}

var errNobody = errors.New("nobody is there")

// spoken is a connection. Messages are written by a goroutine of their own, as nobody may wait for a pipe with a lock.
type spoken struct {
	conn net.Conn
	out  chan []pgproto3.BackendMessage
}

// config is for this server alone.
func (p *pretended) config(t *testing.T) pgwake.Config {
	t.Helper()
	conn, err := pgx.ParseConfig("postgres://user@server.invalid:5432/db?sslmode=disable")
	require.NoError(t, err)
	conn.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil }
	conn.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) }
	return pgwake.Config{ConnConfig: conn, Channel: "c", Logger: quiet, OnError: func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.errs = append(p.errs, err)
	}}
}

func (p *pretended) dial(ctx context.Context) (net.Conn, error) {
	if p.hangs.Load() {
		p.dialling.Add(1)
		defer p.dialling.Add(-1)
		<-ctx.Done()
		time.Sleep(time.Second)
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials = append(p.dials, time.Now())
	if p.away || p.room > 0 && len(p.all) >= p.room {
		return nil, errNobody
	}
	client, server := net.Pipe()
	s := &spoken{conn: server, out: make(chan []pgproto3.BackendMessage, 1000)}
	p.all = append(p.all, s)
	go p.serve(s)
	return client, nil
}

// set lets the server be away, or come back. When it goes, all connections end.
func (p *pretended) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for _, s := range p.all {
			s.conn.Close()
		}
		p.all, p.ears = nil, nil
	}
}

func (p *pretended) times() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *pretended) told() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs
}

func (p *pretended) serve(s *spoken) {
	defer s.conn.Close()
	backend := pgproto3.NewBackend(s.conn, s.conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	defer close(s.out)
	go func() {
		for messages := range s.out {
			for _, m := range messages {
				backend.Send(m)
			}
			if backend.Flush() != nil {
				s.conn.Close() // and go on, so that nobody waits
			}
		}
	}()
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	s.out <- []pgproto3.BackendMessage{&pgproto3.AuthenticationOk{}, ready}
	var payload string
	for {
		message, err := backend.Receive()
		if err != nil {
			p.leave(s)
			return
		}
		switch m := message.(type) {
		case *pgproto3.Query:
			if strings.HasPrefix(m.String, "LISTEN") {
				p.mu.Lock()
				p.ears = append(p.ears, s)
				p.mu.Unlock()
			}
			var answer []pgproto3.BackendMessage
			p.mu.Lock()
			if strings.HasPrefix(m.String, "--") {
				for _, payload := range p.early {
					answer = append(answer, &pgproto3.NotificationResponse{PID: 1, Channel: "c", Payload: payload})
				}
				p.early = nil
			}
			p.mu.Unlock()
			s.out <- append(answer, &pgproto3.CommandComplete{CommandTag: []byte("DONE")}, ready)
		case *pgproto3.Parse:
			p.mu.Lock()
			p.statements = append(p.statements, [2]string{m.Name, m.Query})
			p.mu.Unlock()
		case *pgproto3.Bind:
			payload = string(m.Parameters[1])
		case *pgproto3.Sync:
			s.out <- []pgproto3.BackendMessage{
				&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, &pgproto3.NoData{}, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, ready,
			}
			p.notify(payload)
		}
	}
}

// leave ends what the connection listens to; its queue is closed next.
func (p *pretended) leave(s *spoken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, ear := range p.ears {
		if ear == s {
			p.ears = append(p.ears[:i:i], p.ears[i+1:]...)
			return
		}
	}
}

func (p *pretended) notify(payload string) {
	payloads := []string{payload}
	if p.notified != nil {
		payloads = p.notified(payload)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ear := range p.ears {
		for _, payload := range payloads {
			ear.out <- []pgproto3.BackendMessage{&pgproto3.NotificationResponse{PID: 1, Channel: "c", Payload: payload}}
		}
	}
}

// listens runs a listener in the bubble.
func listens(t *testing.T, c pgwake.Config) (*pgwake.Listener, <-chan struct{}) {
	t.Helper()
	l, err := pgwake.NewListener(c)
	require.NoError(t, err)
	ch := l.Subscribe()
	run(t, l)
	synctest.Wait()
	return l, ch
}

// TestTheConfigIsCopied: what is changed afterwards does not matter.
func TestTheConfigIsCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := (&pretended{}).config(t)
		l, err := pgwake.NewListener(c)
		require.NoError(t, err)
		c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errNobody }
		run(t, l)
		synctest.Wait()
		assert.True(t, l.Status().Healthy)
	})
}

func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestANotificationIsOneStatement without a name, for poolers, and does not wait for the disk with a lock that all others need.
func TestANotificationIsOneStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{}
		l, _ := listens(t, p.config(t))
		require.True(t, l.Status().Healthy)
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Len(t, p.statements, 1)
		assert.Empty(t, p.statements[0][0])
		assert.Contains(t, p.statements[0][1], "set_config('synchronous_commit', 'off', true)")
		assert.Contains(t, p.statements[0][1], "pg_notify(")
	})
}

func TestTheListenerBacksOffWithoutAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{away: true}
		c := p.config(t)
		c.MinBackoff, c.MaxBackoff = time.Second, time.Minute
		l, ch := listens(t, c)
		elapse(time.Hour)
		n := len(p.told())
		assert.GreaterOrEqual(t, n, 60)
		assert.LessOrEqual(t, n, 90, "one in 45 to 60 s, and some in the first minute")
		assert.Empty(t, ch)

		// After it has worked the pause is short again.
		p.set(false)
		elapse(time.Minute)
		require.True(t, l.Status().Healthy)
		begin := time.Now()
		p.set(true)
		elapse(time.Second)
		last := p.times()
		assert.LessOrEqual(t, last[len(last)-1].Sub(begin), time.Second)
		assert.True(t, last[len(last)-1].After(begin), "it has tried again")
		p.set(false)
		elapse(time.Minute)
		assert.True(t, l.Status().Healthy)
	})
}

func TestAListenerThatDoesNotHearTestsInIntervals(t *testing.T) {
	t.Parallel()
	for name, notified := range map[string]func(string) []string{
		"nothing":         func(string) []string { return nil },
		"tests of others": func(string) []string { return []string{"test:of another"} },
		"what is no test": func(string) []string { return []string{"", ""} },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &pretended{notified: notified}
			c := p.config(t)
			c.Timeout, c.RetestInterval = 5*time.Second, time.Minute
			l, _ := listens(t, c)
			elapse(time.Hour)
			n := len(p.told())
			assert.GreaterOrEqual(t, n, 55, name)
			assert.LessOrEqual(t, n, 73, "%s: one in 50 to 65 s", name)
			for _, err := range p.told() {
				require.ErrorIs(t, err, pgwake.ErrDeaf, name)
			}
			assert.False(t, l.Status().Healthy, name)
		})
	}
}

// TestAListenerThatCannotTestItself keeps its connection: it may well hear.
func TestAListenerThatCannotTestItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{room: 1}
		c := p.config(t)
		c.RetestInterval = time.Minute
		l, ch := listens(t, c)
		<-ch
		for range 3 {
			elapse(10 * time.Minute)
			assert.True(t, l.Status().Connected)
			assert.False(t, l.Status().Healthy)
			require.ErrorIs(t, l.Status().Err, errNobody)
			require.NotErrorIs(t, l.Status().Err, pgwake.ErrDeaf)
			p.notify("")
			synctest.Wait()
			require.Len(t, ch, 1)
			<-ch
		}
		assert.Len(t, p.told(), len(p.times())-1, "a connection, and one attempt for each test")
		assert.LessOrEqual(t, len(p.told()), 41, "one in 45 to 60 s")
		p.mu.Lock()
		p.room = 0
		p.mu.Unlock()
		elapse(time.Minute)
		assert.True(t, l.Status().Healthy)
	})
}

// TestANotificationDuringTheTest arrives between the test and its answer.
func TestANotificationDuringTheTest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &pretended{notified: func(payload string) []string {
			<-release
			return []string{"", payload}
		}}
		l, ch := listens(t, p.config(t))
		require.Len(t, ch, 1, "for what was missed")
		<-ch
		assert.False(t, l.Status().Healthy)
		close(release)
		synctest.Wait()
		assert.True(t, l.Status().Healthy)
		assert.Len(t, ch, 1)
	})
}

// TestNotificationsThatComeTogether are all looked at: only the last of these is for the relays.
func TestNotificationsThatComeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{}
		c := p.config(t)
		c.PingInterval = 10 * time.Second
		l, ch := listens(t, c)
		require.True(t, l.Status().Healthy)
		<-ch
		p.mu.Lock()
		p.early = []string{"test:of another", "test:of a third", ""}
		p.mu.Unlock()
		elapse(11 * time.Second)
		assert.Len(t, ch, 1)
	})
}

// TestAServerThatSaysNothing to those who connect: the driver would try for 15 s to cancel what is not running.
func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{}
		c := p.config(t)
		c.Timeout, c.MinBackoff, c.MaxBackoff = 5*time.Second, time.Second, time.Second
		l, err := pgwake.NewListener(c)
		require.NoError(t, err)
		stop := run(t, l)
		synctest.Wait()
		require.True(t, l.Status().Healthy)
		p.hangs.Store(true)
		p.set(true)
		elapse(3 * time.Second)
		assert.Len(t, p.told(), 1, "it has given the connection up")
		elapse(time.Minute)
		n := len(p.told())
		assert.GreaterOrEqual(t, n, 8)
		assert.LessOrEqual(t, n, 11, "one in 6.75 to 7 s")
		stop()
		assert.Zero(t, p.dialling.Load(), "nothing is left")
	})
}
