package outboxtest

import (
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Published is a message that a Broker has taken.
type Published struct {
	Topic   string
	Message *message.Message
}

// Broker is a message.Publisher that keeps what is published in memory. The zero value is ready to use, by any number of goroutines.
type Broker struct {
	mu        sync.Mutex
	published []Published
	failures  []error
}

var _ message.Publisher = (*Broker)(nil)

// Publish implements message.Publisher.
func (b *Broker) Publish(topic string, messages ...*message.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, msg := range messages {
		if len(b.failures) > 0 {
			err := b.failures[0]
			b.failures = b.failures[1:]
			if err != nil {
				return err
			}
		}
		b.published = append(b.published, Published{topic, msg.Copy()})
	}
	return nil
}

// FailNext makes the next messages fail, one for each error; nil lets one through.
func (b *Broker) FailNext(errs ...error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, errs...)
}

// Published returns what was published since the Broker was made, or since Reset, in its order.
func (b *Broker) Published() []Published {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Published(nil), b.published...)
}

// Reset forgets what was published and which errors are to come.
func (b *Broker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published, b.failures = nil, nil
}

// Close implements message.Publisher. It does nothing.
func (b *Broker) Close() error { return nil }
