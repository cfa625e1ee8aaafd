package brokers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/pause"
)

// effect is what the handler does for an event. Nothing keeps it from doing that twice.
type effect struct {
	ID        int64 // in the order of the commits, since one handler runs at a time
	Aggregate uuid.UUID
	Version   int
	Message   string
}

// consume runs the consumer. An adapter may give up when the broker goes away; then it starts again, as a process would be started again.
func (c *chain) consume(ctx context.Context) error {
	for {
		err := c.route(ctx)
		if ctx.Err() != nil {
			return err
		}
		if !pause.Sleep(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

func (c *chain) route(ctx context.Context) error {
	sub, err := c.broker.subscriber()
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return errors.Join(err, sub.Close())
	}
	router.AddMiddleware(c.record, middleware.Duplicator, c.dedup.Middleware)
	router.AddConsumerHandler("stock", topic, sub, c.handle)
	err = router.Run(ctx)
	return errors.Join(err, sub.Close()) // the router does not close it if it could not subscribe
}

// record notes what arrives, before anything else sees it, and kills the broker.
func (c *chain) record(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if c.broker.ghosts && msg.UUID == "" {
			c.mu.Lock()
			c.ghosts++
			c.mu.Unlock()
			return h(msg) // dedup refuses it
		}
		c.mu.Lock()
		c.arrived = append(c.arrived, &message.Message{UUID: msg.UUID, Payload: bytes.Clone(msg.Payload), Metadata: maps.Clone(msg.Metadata)})
		n := len(c.arrived)
		c.mu.Unlock()
		switch n {
		case goingOn:
			close(c.goOn)
		case killedAt:
			// Its effect will be committed, and nobody there to ack it to.
			c.killErr = c.broker.server.kill()
			close(c.killed)
		}
		return h(msg)
	}
}

var errNowAndThen = errors.New("the handler fails")

// handle has its effect, and fails after it for the first time with every seventh message.
func (c *chain) handle(msg *message.Message) error {
	var o Order
	if err := json.Unmarshal(bytes.TrimSuffix(msg.Payload, noText), &o); err != nil {
		return err
	}
	if err := dedup.Tx(msg.Context()).Create(&effect{Aggregate: o.ID, Version: o.Version, Message: msg.UUID}).Error; err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, again := c.failures[msg.UUID]; again {
		return nil
	}
	c.failures[msg.UUID] = len(c.failures)%7 == 0
	if c.failures[msg.UUID] {
		return errNowAndThen
	}
	return nil
}

func (c *chain) deliveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrived)
}
