package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const (
	forwarderTopic  = "outbox"
	forwarderEvents = 30_000 // more than it does in its time
	forwarderTime   = 5 * time.Second
	forwarderBatch  = 1000 // 100 by default, and slower
	forwarderPoll   = 5 * time.Millisecond
	forwarderWait   = time.Minute // for its first message
	fillBatch       = 500
)

// queue is the schema of watermill-sql that is fastest at this: rows are deleted when they are acknowledged, and none are read again.
var queue = wsql.PostgreSQLQueueSchema{
	SubscribeBatchSize:  forwarderBatch,
	GeneratePayloadType: func(string) string { return "BYTEA" },
}

// forward lets Watermill's forwarder publish for a while what watermill-sql keeps, with settings in its favour. Its time begins with its first message.
func (b *bench) forward(ctx context.Context, publisher message.Publisher, topic string, keys int) (result sample, err error) {
	d := &database{server: b.postgres, name: newName()}
	b.later(d.drop)
	if d.dsn, err = b.postgres.create(ctx, d.name); err != nil {
		return nil, fmt.Errorf("creating a database: %w", err)
	}
	n := b.size(forwarderEvents)
	err = d.pool(func(pool *sql.DB) error {
		if err := fillForwarder(ctx, pool, n, topic, keys); err != nil {
			return err
		}
		if err := b.postgres.analyze(ctx, pool); err != nil {
			return fmt.Errorf("analyzing: %w", err)
		}
		subscriber, err := wsql.NewSubscriber(wsql.BeginnerFromStdSQL(pool), wsql.SubscriberConfig{
			SchemaAdapter: queue, OffsetsAdapter: wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true}, PollInterval: forwarderPoll,
		}, nil)
		if err != nil {
			return fmt.Errorf("making a subscriber: %w", err)
		}
		result, err = forwarded(ctx, subscriber, publisher, n, b.span(forwarderTime))
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, bounded(ctx, d.drop)
}

// fillForwarder writes messages as the relay would publish them.
func fillForwarder(ctx context.Context, pool *sql.DB, n int, topic string, keys int) error {
	rows, err := wsql.NewPublisher(wsql.BeginnerFromStdSQL(pool), wsql.PublisherConfig{SchemaAdapter: queue, AutoInitializeSchema: true}, nil)
	if err != nil {
		return fmt.Errorf("making a publisher: %w", err)
	}
	publisher := forwarder.NewPublisher(rows, forwarder.PublisherConfig{ForwarderTopic: forwarderTopic})
	for first := 0; first < n; first += fillBatch {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		batch := make([]*message.Message, min(fillBatch, n-first))
		for i := range batch {
			id, err := newID()
			if err != nil {
				return err
			}
			batch[i], err = watermilladapter.ToMessage(gormoutbox.Record{
				ID: id, AggregateType: ordinary, AggregateID: strconv.Itoa((first + i) % keys), EventType: "a.happened", Payload: payload(), CreatedAt: time.Now(),
			})
			if err != nil {
				return err
			}
		}
		if err := publisher.Publish(topic, batch...); err != nil {
			return fmt.Errorf("writing messages: %w", err)
		}
	}
	return nil
}

// forwarded runs the forwarder until it has published n messages, or for some time.
func forwarded(ctx context.Context, subscriber message.Subscriber, publisher message.Publisher, n int, span time.Duration) (sample, error) {
	counted := &counted{Publisher: publisher, want: n, begun: make(chan struct{}), done: make(chan struct{})}
	f, err := forwarder.NewForwarder(subscriber, counted, nil, forwarder.Config{ForwarderTopic: forwarderTopic, CloseTimeout: span})
	if err != nil {
		return nil, fmt.Errorf("making a forwarder: %w", err)
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return f.Run(running) })
	measure := func() (sample, error) {
		if err := within(running, forwarderWait, counted.begun); err != nil {
			return nil, fmt.Errorf("waiting for the forwarder: %w", err)
		}
		timer := time.NewTimer(span)
		defer timer.Stop()
		select {
		case <-running.Done():
			return nil, context.Cause(running)
		case <-counted.done:
		case <-timer.C:
		}
		return counted.rate(), nil
	}
	result, err := measure()
	closing := f.Close()
	if failure := group.Wait(); failure != nil {
		return nil, failure
	}
	if err == nil {
		err = closing
	}
	return result, err
}

// counted counts what a publisher has published.
type counted struct {
	message.Publisher
	want  int
	begun chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	n     int
	first time.Time
	last  time.Time
}

// Publish implements message.Publisher.
func (c *counted) Publish(topic string, messages ...*message.Message) error {
	c.mu.Lock()
	if c.first.IsZero() {
		c.first = time.Now()
		close(c.begun)
	}
	c.mu.Unlock()
	err := c.Publisher.Publish(topic, messages...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if c.n += len(messages); c.n == c.want {
		close(c.done)
	}
	return nil
}

func (c *counted) rate() sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rate(c.n, c.last.Sub(c.first))
}
