package relaytest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// inbox receives what a publisher has published.
type inbox struct {
	subscriber message.Subscriber
	wg         sync.WaitGroup

	mu       sync.Mutex
	arrivals []arrival
	counts   map[string]int // by UUID
	ended    error          // why a subscription has ended too early
	// changed is closed at the next arrival and made anew.
	changed chan struct{}
}

// arrival is a message in the topic in which it arrived.
type arrival struct {
	topic string
	msg   *message.Message
}

func newInbox(s message.Subscriber) *inbox {
	return &inbox{subscriber: s, counts: map[string]int{}, changed: make(chan struct{})}
}

// subscribe receives from the topic until ctx ends.
func (in *inbox) subscribe(ctx context.Context, topic string) error {
	messages, err := in.subscriber.Subscribe(ctx, topic)
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", topic, err)
	}
	in.wg.Go(func() {
		for {
			select {
			case msg, ok := <-messages:
				if !ok {
					in.end(ctx, topic)
					return
				}
				in.add(topic, msg)
				msg.Ack()
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (in *inbox) add(topic string, msg *message.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.arrivals = append(in.arrivals, arrival{topic, msg})
	in.counts[msg.UUID]++
	in.signal()
}

func (in *inbox) end(ctx context.Context, topic string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if ctx.Err() == nil {
		in.ended = fmt.Errorf("the subscription to %s has ended by itself", topic)
	}
	in.signal()
}

func (in *inbox) signal() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// await returns which of the messages have not arrived when all have, or patience is at its end.
func (in *inbox) await(ids []string, patience time.Duration) (missing []string, _ error) {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		in.mu.Lock()
		// From the end, as the last ones usually come last.
		for len(ids) > 0 && in.counts[ids[len(ids)-1]] > 0 {
			ids = ids[:len(ids)-1]
		}
		changed, ended := in.changed, in.ended
		in.mu.Unlock()
		if len(ids) == 0 || ended != nil {
			return nil, ended
		}
		select {
		case <-changed:
		case <-end.C:
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, id := range ids {
				if in.counts[id] == 0 {
					missing = append(missing, id)
				}
			}
			return missing, nil
		}
	}
}

// beyond waits until n messages have arrived, or done, and says which of them.
func (in *inbox) beyond(n int, done <-chan struct{}) bool {
	for {
		in.mu.Lock()
		enough, changed := len(in.arrivals) >= n, in.changed
		in.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

func (in *inbox) all() []arrival {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.arrivals[:len(in.arrivals):len(in.arrivals)]
}
