package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// generation is a producer of sarama with a network of its own.
//
// A strict generation keeps order when a message fails for good. sarama alone goes
// on with the later messages of the partition then, whether its retries are used up, no leader is
// found, its circuit breaker is open, or the broker refuses a batch. Retries without end would not help
// against the last. So the first failure shuts the network, and no later message can overtake:
//
//   - sarama hands over the failure in a channel without a buffer, and only
//     then goes on: in the goroutine that would handle the next message, or before it unmutes the partition.
//   - Each write to the network first waits until read has handled all that was handed over before.
//   - So a write of a later message finds the network shut.
//
// What was written before is one in-order stream without gaps for each partition, and so is
// what the next generation sends, which begins with the first message not known to have
// arrived. However the broker merges the two, each message comes for the first
// time after those before it.
type generation struct {
	*fence
	strict   bool
	client   sarama.Client
	producer sarama.AsyncProducer

	barrier chan struct{}
	reading atomic.Bool
	feeders sync.WaitGroup
}

// open connects to the cluster. The goroutines that it starts end after shut;
// they are counted in running.
func open(brokers []string, config *sarama.Config, strict bool, running *sync.WaitGroup) (*generation, error) {
	g := &generation{fence: newFence(config), strict: strict, barrier: make(chan struct{})}
	g.gate = g.settled

	own := *config
	own.Net.Proxy.Enable, own.Net.Proxy.Dialer = true, g.fence
	own.Producer.Retry.BackoffFunc = g.hurry(config.Producer.Retry.Backoff, config.Producer.Retry.BackoffFunc)
	own.Metadata.Retry.BackoffFunc = g.hurry(config.Metadata.Retry.Backoff, config.Metadata.Retry.BackoffFunc)

	client, err := sarama.NewClient(brokers, &own)
	if err != nil {
		g.shut()
		return nil, fmt.Errorf("connecting to %q: %w", brokers, err)
	}
	producer, err := sarama.NewAsyncProducerFromClient(client)
	if err != nil {
		g.shut()
		client.Close()
		return nil, fmt.Errorf("making a producer: %w", err)
	}
	g.client, g.producer = client, producer
	running.Go(g.read)
	running.Go(g.end)
	g.reading.Store(true)
	return g, nil
}

// hurry leaves out the pauses between retries once the network is shut.
func (g *generation) hurry(pause time.Duration, f func(retries, maxRetries int) time.Duration) func(int, int) time.Duration {
	return func(retries, maxRetries int) time.Duration {
		switch {
		case g.isDown():
			return 0
		case f != nil:
			return f(retries, maxRetries)
		default:
			return pause
		}
	}
}

// settled waits until read has handled what sarama has handed over.
func (g *generation) settled() {
	if !g.strict || !g.reading.Load() { // before, there are no messages
		return
	}
	select {
	case <-g.barrier:
	case <-g.shutting:
	}
}

// ticket is the Metadata of a record: whose it is.
type ticket struct {
	call  *call
	index int
}

// read hands the outcomes to the calls until the producer has ended.
func (g *generation) read() {
	successes, errs := g.producer.Successes(), g.producer.Errors()
	for successes != nil || errs != nil {
		select {
		case record, ok := <-successes:
			if !ok {
				successes = nil
				continue
			}
			t := record.Metadata.(ticket)
			t.call.settle(t.index, outcome{})
		case failure, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			first := !g.strict || g.shut()
			t := failure.Msg.Metadata.(ticket)
			// What fails afterwards fails because of that, except for what the broker has refused.
			t.call.settle(t.index, outcome{err: failure.Err, fenced: !first && !IsPermanent(failure.Err)})
		case g.barrier <- struct{}{}:
		}
	}
}

// end closes the producer once the network is shut. Without a client sarama finds no
// leader, so that all that is queued fails.
func (g *generation) end() {
	<-g.shutting
	g.client.Close()
	g.feeders.Wait() // or they would write to a closed channel
	g.producer.AsyncClose()
}

// send sends the records and returns their outcomes. When ctx ends it shuts
// the network; what has no outcome by then may arrive.
func (g *generation) send(ctx context.Context, records []*sarama.ProducerMessage) []outcome {
	c := newCall(len(records))
	for i, record := range records {
		record.Metadata = ticket{c, i}
	}
	if !g.enter() {
		c.skip(0)
		return c.outcomes
	}
	go g.feed(c, records)
	select {
	case <-c.finished:
	case <-ctx.Done():
		g.shut()
	}
	return c.take()
}

func (g *generation) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return false
	}
	g.feeders.Add(1)
	return true
}

func (g *generation) feed(c *call, records []*sarama.ProducerMessage) {
	defer g.feeders.Done()
	for i, record := range records {
		select {
		case g.producer.Input() <- record:
		case <-g.shutting:
			c.skip(i)
			return
		}
	}
}
