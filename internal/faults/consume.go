//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/chain"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// The handlers, by which names their messages are recorded, and what they do: what happens to an account is reserved, and what is
// reserved is invoiced.
const (
	hopReserve = "reserve"
	hopInvoice = "invoice"

	topicReserved = "reservations"
	topicPoisoned = "poison"
)

// effect is what a handler does for a message. Nothing in the database keeps it from doing that twice.
type effect struct {
	ID      int64  // in the order of the handling, within an account
	Hop     string `gorm:"size:16"`
	Message string `gorm:"size:36"`
	Account int
	Version int64
}

// attempts is how often the chain runs a handler before it gives a message up.
const attempts = 6

// consumer is a process that handles messages.
type consumer struct {
	role   role
	db     *gorm.DB
	dedup  *dedup.Deduplicator
	log    *slog.Logger
	notes  *os.File
	random *rand.Rand

	mu  sync.Mutex  // for random
	ran sync.Map    // UUIDs of messages whose handler has run, until its middleware returns
	die atomic.Bool // at the next commit
}

// consume runs a router with both handlers until ctx ends.
func (r role) consume(ctx context.Context) error {
	d, err := databaseFor(r.Database)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With(slog.Int("pid", os.Getpid()))
	notes, err := r.openNotes()
	if err != nil {
		return err
	}
	defer notes.Close()
	g, err := open(ctx, d, r.DSN, 2*partitions+4)
	if err != nil {
		return nil // stopped before it began
	}
	defer closePool(g)
	once, err := dedup.New(g, dedup.Config{Logger: log})
	if err != nil {
		return err
	}
	c := &consumer{role: r, db: g, dedup: once, log: log, notes: notes, random: rand.New(rand.NewPCG(r.Seed, 3))} //nolint:gosec // the seed decides
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-asked:
			c.die.Store(true)
		case <-ctx.Done():
		}
	})
	defer wg.Wait()
	for ctx.Err() == nil {
		// A router ends with an error if a server is away when it starts. Elsewhere the process would be started again.
		if err := c.route(ctx); err != nil {
			log.ErrorContext(ctx, "the router has ended", slog.Any("error", err))
			wait(ctx, 300*time.Millisecond)
		}
	}
	return nil
}

func (c *consumer) route(ctx context.Context) (err error) {
	logger := watermill.NewSlogLogger(c.log)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: shutdown}, logger)
	if err != nil {
		return err
	}
	poison, err := watermilladapter.NewPublisher(c.db, watermilladapter.PublisherConfig{OwnTransaction: true})
	if err != nil {
		return err
	}
	router.AddMiddleware(c.watch)
	err = chain.Install(router, c.dedup, chain.Config{
		PoisonPublisher: poison, PoisonTopic: topicPoisoned, Timeout: 5 * time.Second,
		Retry: &middleware.Retry{MaxRetries: attempts - 1, InitialInterval: 10 * time.Millisecond, MaxInterval: 100 * time.Millisecond, Multiplier: 2},
	})
	if err != nil {
		return err
	}
	for _, hop := range []struct {
		name, from, to string
		handler        message.HandlerFunc
	}{{hopReserve, topic, topicReserved, c.reserve}, {hopInvoice, topicReserved, "", c.invoice}} {
		sub, err := c.subscriber(hop.name, logger)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sub.Close()) }()
		if hop.to == "" {
			router.AddConsumerHandler(hop.name, hop.from, sub, func(msg *message.Message) error {
				_, err := hop.handler(msg)
				return err
			})
			continue
		}
		router.AddHandler(hop.name, hop.from, sub, hop.to, unused{}, hop.handler)
	}
	return router.Run(ctx)
}

func (c *consumer) subscriber(group string, logger watermill.LoggerAdapter) (message.Subscriber, error) {
	config := kafka.SubscriberConfig()
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, detour(c.role.Kafka)
	// Frozen processes lose their partitions to others, and do not know it when they go on.
	config.Consumer.Group.Session.Timeout, config.Consumer.Group.Heartbeat.Interval = 3*time.Second, 500*time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 8 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	return wkafka.NewSubscriber(wkafka.SubscriberConfig{
		Brokers: []string{c.role.Kafka}, ConsumerGroup: group, Unmarshaler: kafka.Marshaler{}, OverwriteSaramaConfig: config,
		NackResendSleep: 50 * time.Millisecond, ReconnectRetrySleep: 300 * time.Millisecond,
	}, logger)
}

// unused is the publisher of a handler under dedup, which the router must have and never calls.
type unused struct{}

var errUsed = errors.New("the router publishes what a handler under dedup has returned")

// Publish implements message.Publisher.
func (unused) Publish(string, ...*message.Message) error { return errUsed }

// Close implements message.Publisher.
func (unused) Close() error { return nil }

// watch stands outside of all others, between the commit and the ack.
func (c *consumer) watch(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := h(msg)
		key := message.HandlerNameFromCtx(msg.Context()) + msg.UUID
		_, ran := c.ran.LoadAndDelete(key)
		switch {
		case err != nil:
			c.note("nacked")
		case !ran:
			c.note("duplicate")
		case c.die.Load():
			c.note("killed between commit and ack")
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it is not caught
		}
		return produced, err
	}
}

func (c *consumer) note(what string) { _, _ = c.notes.WriteString(what + "\n") }

// reserve is the first handler. It returns a message.
func (c *consumer) reserve(msg *message.Message) ([]*message.Message, error) {
	a, err := c.handle(hopReserve, msg)
	if err != nil {
		return nil, err
	}
	out := message.NewMessage(watermill.NewUUID(), msg.Payload)
	out.Metadata.Set(gormoutbox.HeaderAggregateType, "reservation")
	out.Metadata.Set(gormoutbox.HeaderAggregateID, fmt.Sprint(a.ID))
	return message.Messages{out}, nil
}

func (c *consumer) invoice(msg *message.Message) ([]*message.Message, error) {
	_, err := c.handle(hopInvoice, msg)
	return nil, err
}

var (
	errAtRandom = errors.New("the handler fails this time")
	errUnusable = errors.New("the handler fails each time")
)

// unusable says that no handler of the first hop can handle the message.
func unusable(uuid string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte("unusable " + uuid))
	return h.Sum32()%1500 == 0
}

// handle has its effect, before or after which it may fail.
func (c *consumer) handle(hop string, msg *message.Message) (account, error) {
	var a account
	if err := json.Unmarshal(msg.Payload, &a); err != nil {
		return a, err
	}
	chance := func(n int) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.random.IntN(n) == 0
	}
	if chance(80) {
		return a, errAtRandom
	}
	tx := dedup.Tx(msg.Context())
	e := effect{Hop: hop, Message: msg.UUID, Account: a.ID, Version: a.Version}
	if err := tx.Create(&e).Error; err != nil {
		return a, err
	}
	switch {
	case hop == hopReserve && unusable(msg.UUID):
		return a, errUnusable
	case chance(80):
		return a, errAtRandom
	case chance(300):
		panic("the handler panics this time")
	case chance(400):
		pause(c.role.Lease * 2) // with its transaction open, while others may get the partition
	}
	c.ran.Store(hop+msg.UUID, true)
	return a, nil
}
