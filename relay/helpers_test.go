package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// quiet drops logs; tests look at the tables.
var quiet = slog.New(slog.DiscardHandler)

// open migrates a fresh database and registers the plugin.
func open(t testing.TB, db testenv.Database) *gorm.DB {
	t.Helper()
	g := db.Open(t)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Logger: quiet})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	return g
}

// event is a domain event of one aggregate.
func event(aggregate, payload string) gormoutbox.Event {
	return gormoutbox.Event{AggregateType: "a", AggregateID: aggregate, Type: "a.happened", Payload: payload}
}

// recorder is a publisher that keeps what it gets and fails when told to.
type recorder struct {
	mu       sync.Mutex
	messages []*message.Message
	topics   []string
	changed  chan struct{}
	// fail is asked before a message is kept.
	fail func(topic string, msg *message.Message) error
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		if r.fail != nil {
			if err := r.fail(topic, m); err != nil {
				return err
			}
		}
		r.mu.Lock()
		r.messages = append(r.messages, m)
		r.topics = append(r.topics, topic)
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *recorder) Close() error { return errors.New("a relay must not close the publisher") }

func (r *recorder) payloads() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, len(r.messages))
	for i, m := range r.messages {
		out[i] = string(m.Payload)
	}
	return out
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.messages)
}

// wait returns when n messages have come.
func (r *recorder) wait(t testing.TB, n int) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	for {
		got := r.count()
		if got >= n {
			return
		}
		select {
		case <-r.changed:
		case <-deadline.C:
			t.Fatalf("%d of %d messages came", got, n)
		}
	}
}

// start runs a relay until stop is called, which reports its error.
func start(t testing.TB, db *gorm.DB, pub message.Publisher, config relay.Config) (stop func()) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quiet
	}
	r, err := relay.New(db, pub, config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			assert.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	return stop
}

// state is what a test reads of an event's row.
type state struct {
	Payload   []byte
	Attempts  int
	LastError *string
	Processed bool
	Parked    bool
}

func states(t testing.TB, db *gorm.DB) map[string]state {
	t.Helper()
	var all []state
	require.NoError(t, db.Raw("SELECT payload, attempts, last_error, processed_at IS NOT NULL AS processed, parked_at IS NOT NULL AS parked FROM outbox_events").Scan(&all).Error)
	out := map[string]state{}
	for _, s := range all {
		out[string(s.Payload)] = s
	}
	return out
}

func countRows(t testing.TB, db *gorm.DB, query string) int {
	t.Helper()
	var n int
	require.NoError(t, db.Raw(query).Scan(&n).Error)
	return n
}

// eventually polls a condition of the database.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 60*time.Second, 5*time.Millisecond, what)
}

// add writes events in a transaction of their own.
func add(t testing.TB, g *gorm.DB, events ...gormoutbox.Event) {
	t.Helper()
	require.NoError(t, gormoutbox.Append(g, events...))
}

// series is n events of one aggregate with the payloads prefix0, prefix1 and so on.
func series(aggregate, prefix string, n int) []gormoutbox.Event {
	out := make([]gormoutbox.Event, n)
	for i := range out {
		out[i] = event(aggregate, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// of lists the payloads that begin with prefix, in the order of their publishing.
func (r *recorder) of(prefix string) []string {
	var out []string
	for _, p := range r.payloads() {
		if strings.HasPrefix(p, prefix) {
			out = append(out, p)
		}
	}
	return out
}

// waitFor returns when a message with the payload has come.
func (r *recorder) waitFor(t testing.TB, payload string) {
	t.Helper()
	eventually(t, payload+" is published", func() bool { return slices.Contains(r.payloads(), payload) })
}

// poison is a switch that makes the messages with some payloads fail.
type poison struct {
	mu     sync.Mutex
	bad    map[string]bool
	failed int
}

var errPoison = errors.New("broker refuses the message")

func newPoison(payloads ...string) *poison {
	p := &poison{bad: map[string]bool{}}
	for _, s := range payloads {
		p.bad[s] = true
	}
	return p
}

func (p *poison) fail(_ string, msg *message.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad[string(msg.Payload)] {
		p.failed++
		return errPoison
	}
	return nil
}

// tries is how often one of them has failed.
func (p *poison) tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *poison) cure() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.bad)
}

// charge makes every error one of its event.
func charge(error) relay.Class { return relay.Retryable }

// exec runs a statement with "?" as placeholder.
func exec(t testing.TB, g *gorm.DB, query string, args ...any) {
	t.Helper()
	require.NoError(t, g.Exec(query, args...).Error)
}

// lowOf is the saved low mark of the partition of an aggregate of type "a".
func lowOf(t testing.TB, g *gorm.DB, aggregate string) int {
	t.Helper()
	return countRows(t, g, fmt.Sprintf("SELECT low FROM outbox_partitions WHERE part = %d", gormoutbox.Partition("a", aggregate, gormoutbox.DefaultPartitions)))
}

func seqOf(t testing.TB, g *gorm.DB, payload string) int {
	t.Helper()
	var n int
	require.NoError(t, g.Raw("SELECT seq FROM outbox_events WHERE payload = ?", []byte(payload)).Scan(&n).Error)
	return n
}
