//go:build linux

package main

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	batchSize = 100
	// shutdown is how long a relay may take to end.
	shutdown = 15 * time.Second
)

// relay runs a relay until ctx ends.
func (r role) relay(ctx context.Context) error {
	d, err := databaseFor(r.Database)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})).With(slog.Int("pid", os.Getpid()))
	inner, err := newPublisher(r.Kafka, log)
	if err != nil {
		return err
	}
	notes, err := r.openNotes()
	if err != nil {
		return err
	}
	defer notes.Close()
	g, err := open(ctx, d, r.DSN, 10)
	if err != nil {
		return nil // stopped before it began
	}
	defer closePool(g)
	f := &flaky{notes: notes, slow: r.Lease * 3 / 2, tries: map[string]int{}}
	var publisher message.Publisher = &single{flaky: f, publisher: inner}
	if r.Batch {
		publisher = &batch{single: single{flaky: f, publisher: inner}, batches: inner}
	}
	one, err := relay.New(g, publisher, relay.Config{
		ID: r.Name, BatchSize: batchSize, Lanes: 32, Lease: r.Lease, MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second,
		MaxAttempts: 100_000, Classify: classify, ShutdownTimeout: shutdown, DeleteOnPublish: r.Remove, SettleWindow: 2 * time.Second, Logger: log,
	})
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "relay begins")
	err = one.Run(ctx)
	log.InfoContext(ctx, "relay has ended", slog.Any("error", err))
	return errors.Join(err, inner.Close())
}

func classify(err error) relay.Class {
	switch {
	case errors.Is(err, errPoison):
		return relay.Retryable
	case kafka.IsOutage(err):
		return relay.Outage
	}
	return relay.Unknown
}

func newPublisher(address string, log *slog.Logger) (*kafka.Publisher, error) {
	config := kafka.PublisherConfig()
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, detour(address)
	return kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: []string{address}, Logger: log, Sarama: config})
}

// detour dials one address instead of all others.
type detour string

// Dial implements proxy.Dialer.
func (d detour) Dial(network, _ string) (net.Conn, error) {
	return net.DialTimeout(network, string(d), 4*time.Second)
}

var errPoison = errors.New("this event is poison for now")

// flaky makes some events fail a few times, and some publishes longer than a lease.
type flaky struct {
	notes *os.File
	slow  time.Duration

	mu    sync.Mutex
	tries map[string]int
}

// before is asked before each message goes out. Ids decide, so that all relays make trouble for the same events.
func (f *flaky) before(msg *message.Message) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(msg.UUID))
	n := h.Sum32()
	poison, slow := n%400 == 0, n%5000 == 1
	if !poison && !slow {
		return nil
	}
	f.mu.Lock()
	f.tries[msg.UUID]++
	tries := f.tries[msg.UUID]
	f.mu.Unlock()
	switch {
	case poison && tries <= 3:
		_, _ = f.notes.WriteString("poison\n")
		return errPoison
	case slow && tries == 1:
		_, _ = f.notes.WriteString("slow\n")
		pause(f.slow)
	}
	return nil
}

// single is a publisher that hides that the one behind it takes batches.
type single struct {
	*flaky

	publisher message.Publisher
}

var _ message.Publisher = (*single)(nil)

// Publish implements message.Publisher.
func (s *single) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		if err := s.before(msg); err != nil {
			return err
		}
		if err := s.publisher.Publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

// Close implements message.Publisher.
func (s *single) Close() error { return s.publisher.Close() }

// batch is a publisher of batches.
type batch struct {
	single

	batches watermilladapter.BatchPublisher
}

var _ watermilladapter.BatchPublisher = (*batch)(nil)

// PublishBatch implements watermilladapter.BatchPublisher. Behind an event that fails those of its aggregate are not sent.
func (b *batch) PublishBatch(ctx context.Context, all []watermilladapter.Outgoing) []error {
	errs := make([]error, len(all))
	failed := map[string]bool{}
	var good []watermilladapter.Outgoing
	var at []int
	for i, o := range all {
		key := o.Message.Metadata.Get("aggregate_type") + "/" + o.Message.Metadata.Get("aggregate_id")
		if failed[key] {
			errs[i] = errPoison
			continue
		}
		if errs[i] = b.before(o.Message); errs[i] != nil {
			failed[key] = true
			continue
		}
		good, at = append(good, o), append(at, i)
	}
	if len(good) == 0 {
		return errs
	}
	for i, err := range b.batches.PublishBatch(ctx, good) {
		errs[at[i]] = err
	}
	return errs
}
