//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay/relaytest"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// received is a record with what it holds.
type received struct {
	relaytest.Delivery

	UUID    string
	Version int64
	Offset  int64
	// bad says that it is no event of an account.
	bad string
}

// consumer reads all partitions, not through a proxy, from their beginning.
type consumer struct {
	client   sarama.Client
	consumer sarama.Consumer
	wg       sync.WaitGroup
	stopped  chan struct{}

	mu   sync.Mutex
	all  []received // each partition in its order
	next [partitions]int64
}

func newConsumer(address string) (*consumer, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	config.Net.DialTimeout, config.Net.ReadTimeout = 2*time.Second, 5*time.Second
	client, err := sarama.NewClient([]string{address}, config)
	if err != nil {
		return nil, err
	}
	inner, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	c := &consumer{client: client, consumer: inner, stopped: make(chan struct{})}
	for p := range int32(partitions) {
		claim, err := inner.ConsumePartition(topic, p, sarama.OffsetOldest)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.wg.Go(func() { c.read(claim) })
	}
	return c, nil
}

func (c *consumer) read(claim sarama.PartitionConsumer) {
	defer claim.AsyncClose()
	for {
		select {
		case record, ok := <-claim.Messages():
			if !ok {
				return
			}
			c.add(parse(record))
		case <-c.stopped:
			return
		}
	}
}

func (c *consumer) add(r received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, r)
	if p, err := strconv.Atoi(r.Stream); err == nil {
		c.next[p] = r.Offset + 1
	}
}

// parse takes the id from the payload, since the events of models get theirs from the plugin.
func parse(record *sarama.ConsumerMessage) received {
	r := received{Offset: record.Offset}
	r.Stream, r.At = strconv.Itoa(int(record.Partition)), record.Timestamp
	msg, err := kafka.Marshaler{}.Unmarshal(record)
	if err != nil {
		r.bad = err.Error()
		return r
	}
	r.UUID = msg.UUID
	r.AggregateType, r.AggregateID = msg.Metadata.Get(gormoutbox.HeaderAggregateType), msg.Metadata.Get(gormoutbox.HeaderAggregateID)
	var a account
	if err := json.Unmarshal(msg.Payload, &a); err != nil {
		r.bad = err.Error()
		return r
	}
	r.ID, r.Version = a.Nonce, a.Version
	if string(record.Key) != r.AggregateID || strconv.Itoa(a.ID) != r.AggregateID {
		r.bad = fmt.Sprintf("key %q, aggregate %q, account %d", record.Key, r.AggregateID, a.ID)
	}
	return r
}

// count is how many records have come.
func (c *consumer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// catchUp returns when everything that the broker has now was read.
func (c *consumer) catchUp(ctx context.Context) error {
	return until(ctx, 100*time.Millisecond, func() error {
		for p := range int32(partitions) {
			newest, err := c.client.GetOffset(topic, p, sarama.OffsetNewest)
			if err != nil {
				return err
			}
			c.mu.Lock()
			next := c.next[p]
			c.mu.Unlock()
			if next < newest {
				return fmt.Errorf("partition %d: %d of %d records read", p, next, newest)
			}
		}
		return nil
	})
}

func (c *consumer) close() error {
	close(c.stopped)
	c.wg.Wait()
	return errors.Join(c.consumer.Close(), c.client.Close())
}
