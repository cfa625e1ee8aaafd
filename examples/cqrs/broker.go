package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// broker stands for Kafka and its like. It keeps what the relay publishes, for the report.
type broker struct {
	*gochannel.GoChannel
	last string        // the name of the last message of an order
	done chan struct{} // closed when no order is open

	mu   sync.Mutex
	sent []*message.Message
	open int // orders whose last message was not handled yet
}

// newBroker returns a broker that waits for the last message of so many orders.
func newBroker(last string, orders int) *broker {
	return &broker{
		// Publish returns when every reader of the topic has acknowledged, so one message of a topic is under way at a
		// time. Otherwise gochannel would keep no order.
		GoChannel: gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{}),
		last:      last, open: orders, done: make(chan struct{}),
	}
}

// Publish is called by the relay.
func (b *broker) Publish(topic string, messages ...*message.Message) error {
	b.mu.Lock()
	b.sent = append(b.sent, messages...)
	b.mu.Unlock()
	if err := b.GoChannel.Publish(topic, messages...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, msg := range messages {
		if msg.Metadata.Get(gormoutbox.HeaderName) != b.last {
			continue
		}
		if b.open--; b.open == 0 {
			close(b.done)
		}
	}
	return nil
}

// wait returns when all has been handled.
func (b *broker) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", b.last, ctx.Err())
	}
}

// about returns the names of the messages about an order, as they were published.
func (b *broker) about(orderID string) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, msg := range b.sent {
		if msg.Metadata.Get(gormoutbox.HeaderAggregateID) == orderID {
			names = append(names, msg.Metadata.Get(gormoutbox.HeaderName))
		}
	}
	return names
}

// Close is called by the router for each of its handlers, while others may still be at work. It leaves that to shutdown.
func (b *broker) Close() error { return nil }

func (b *broker) shutdown() error { return b.GoChannel.Close() }
