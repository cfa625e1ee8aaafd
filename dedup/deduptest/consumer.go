package deduptest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/dedup"
)

const (
	// DefaultName is the default of Config.Name.
	DefaultName = "consumer"
	// patience bounds every wait for an answer.
	patience = time.Minute
	// tries is how often UntilAcked delivers.
	tries = 100
)

// Config says what a Consumer is.
type Config struct {
	// Deduplicator is the one under test. Required, unless it is among Middlewares.
	Deduplicator *dedup.Deduplicator
	// Handler is called for the messages. Required.
	Handler message.HandlerFunc
	// Name is the router's name of the handler, and so the consumer's unless the Deduplicator has one. Defaults to DefaultName.
	Name string
	// PublishTopic is where messages go that the handler returns. Without one it is a consumer handler, which must not return any.
	PublishTopic string
	// Middlewares are all of the router, outermost first, if Deduplicator is not to be the only one.
	Middlewares []message.HandlerMiddleware
}

// Consumer is a handler in a router that runs until the test ends. It is safe for concurrent use. Its methods fail the test at once if a message is not answered within a minute.
type Consumer struct {
	t        testing.TB
	d        *dedup.Deduplicator
	messages chan *message.Message
}

// NewConsumer starts a router with the handler, which is closed when the test ends.
func NewConsumer(t testing.TB, config Config) *Consumer {
	t.Helper()
	if config.Handler == nil || config.Deduplicator == nil && len(config.Middlewares) == 0 {
		t.Fatal("deduptest: Config needs a Handler, and a Deduplicator or Middlewares")
	}
	if config.Name == "" {
		config.Name = DefaultName
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	if err != nil {
		t.Fatalf("deduptest: %v", err)
	}
	if config.Middlewares == nil {
		config.Middlewares = []message.HandlerMiddleware{config.Deduplicator.Middleware}
	}
	router.AddMiddleware(config.Middlewares...)
	c := &Consumer{t: t, d: config.Deduplicator, messages: make(chan *message.Message)}
	source := &source{messages: c.messages, closed: make(chan struct{})}
	if config.PublishTopic != "" {
		router.AddHandler(config.Name, "deduptest", source, config.PublishTopic, refusing{t}, config.Handler)
	} else {
		router.AddConsumerHandler(config.Name, "deduptest", source, func(msg *message.Message) error {
			produced, err := config.Handler(msg)
			if err == nil && len(produced) > 0 {
				t.Error("deduptest: the handler returned messages, and Config has no PublishTopic")
			}
			return err
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if err := router.Close(); err != nil {
			t.Errorf("deduptest: closing the router: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("deduptest: the router: %v", err)
		}
	})
	select {
	case <-router.Running():
	case err := <-ended:
		ended <- err
		t.Fatalf("deduptest: the router did not start: %v", err)
	}
	return c
}

// Deliver delivers a copy of the message and returns whether it was acked. If not, a broker would deliver it again.
func (c *Consumer) Deliver(msg *message.Message) (acked bool) {
	c.t.Helper()
	out := msg.Copy()
	if !send(c.messages, out) {
		c.t.Fatalf("deduptest: message %s was not taken within %s", msg.UUID, patience)
	}
	return c.answer(out)
}

func send(messages chan<- *message.Message, msg *message.Message) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case messages <- msg:
		return true
	case <-timer.C:
		return false
	}
}

func (c *Consumer) answer(msg *message.Message) bool {
	c.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-msg.Acked():
		return true
	case <-msg.Nacked():
		return false
	case <-timer.C:
		c.t.Fatalf("deduptest: message %s was neither acked nor nacked within %s", msg.UUID, patience)
		return false
	}
}

// UntilAcked delivers the message until it is acked, as a broker would, and returns how often that was. The test fails at once after 100.
func (c *Consumer) UntilAcked(msg *message.Message) (deliveries int) {
	c.t.Helper()
	for deliveries = 1; !c.Deliver(msg); deliveries++ {
		if deliveries == tries {
			c.t.Fatalf("deduptest: message %s was nacked %d times", msg.UUID, tries)
		}
	}
	return deliveries
}

// Twice delivers the message until it is acked, and once more. The test fails at once unless the last one was a duplicate, if the Deduplicator is known, and acked.
func (c *Consumer) Twice(msg *message.Message) {
	c.t.Helper()
	c.UntilAcked(msg)
	before := c.stats()
	if !c.Deliver(msg) {
		c.t.Fatalf("deduptest: message %s was acked, and nacked when it came again", msg.UUID)
	}
	if after := c.stats(); c.d != nil && after.Duplicates <= before.Duplicates {
		c.t.Fatalf("deduptest: message %s was handled again when it came again", msg.UUID)
	}
}

func (c *Consumer) stats() dedup.Stats {
	if c.d == nil {
		return dedup.Stats{}
	}
	return c.d.Stats()
}

// Concurrently delivers the message n times at once, and those that are nacked again until they are acked.
func (c *Consumer) Concurrently(msg *message.Message, n int) {
	c.t.Helper()
	for pending, round := n, 0; pending > 0; round++ {
		if round == tries {
			c.t.Fatalf("deduptest: %d deliveries of message %s were nacked %d times", pending, msg.UUID, tries)
		}
		sent := make([]*message.Message, pending)
		var wg sync.WaitGroup
		lost := make(chan struct{}, pending)
		for i := range sent {
			sent[i] = msg.Copy()
			wg.Go(func() {
				if !send(c.messages, sent[i]) {
					lost <- struct{}{}
				}
			})
		}
		wg.Wait()
		if len(lost) > 0 {
			c.t.Fatalf("deduptest: message %s was not taken within %s", msg.UUID, patience)
		}
		pending = 0
		for _, one := range sent {
			if !c.answer(one) {
				pending++
			}
		}
	}
}

// OutOfOrder delivers the messages in an order that depends on the seed, each until it is acked, and every third one once more at the end.
func (c *Consumer) OutOfOrder(seed uint64, messages ...*message.Message) {
	c.t.Helper()
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(messages)) //nolint:gosec // not a secret
	for _, i := range order {
		c.UntilAcked(messages[i])
	}
	for n, i := range order {
		if n%3 == 0 {
			c.Twice(messages[i])
		}
	}
}

// source is a subscriber whose messages are the test's.
type source struct {
	messages <-chan *message.Message

	once   sync.Once
	closed chan struct{}
}

// Subscribe implements message.Subscriber.
func (s *source) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			select {
			case msg := <-s.messages:
				msg.SetContext(ctx)
				out <- msg // the router takes them until the channel is closed
			case <-s.closed:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// Close implements message.Subscriber.
func (s *source) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// refusing is the publisher of the handler, which dedup must not leave anything to.
type refusing struct{ t testing.TB }

// Publish implements message.Publisher.
func (r refusing) Publish(topic string, messages ...*message.Message) error {
	r.t.Errorf("deduptest: %d messages for topic %q were left to the router, which publishes them after the commit", len(messages), topic)
	return nil
}

// Close implements message.Publisher.
func (refusing) Close() error { return nil }
