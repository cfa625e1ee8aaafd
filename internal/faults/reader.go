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
	Origin  string // the UUID of the message that is forwarded
	Version int64
	Offset  int64
	// bad says that it is no event of an account.
	bad string
}

// reader reads all partitions of a topic, not through a proxy, from their beginning.
type reader struct {
	topic    string
	client   sarama.Client
	consumer sarama.Consumer
	wg       sync.WaitGroup
	stopped  chan struct{}

	mu   sync.Mutex
	all  []received // each partition in its order
	next [partitions]int64
}

func newReader(address, topic string) (*reader, error) {
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
	r := &reader{topic: topic, client: client, consumer: inner, stopped: make(chan struct{})}
	for p := range int32(partitions) {
		claim, err := inner.ConsumePartition(topic, p, sarama.OffsetOldest)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.wg.Go(func() { r.read(claim) })
	}
	return r, nil
}

func (r *reader) read(claim sarama.PartitionConsumer) {
	defer claim.AsyncClose()
	for {
		select {
		case record, ok := <-claim.Messages():
			if !ok {
				return
			}
			r.add(parse(record))
		case <-r.stopped:
			return
		}
	}
}

func (r *reader) add(d received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
	if p, err := strconv.Atoi(d.Stream); err == nil {
		r.next[p] = d.Offset + 1
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
	r.UUID, r.Origin = msg.UUID, msg.Metadata.Get(gormoutbox.HeaderOriginID)
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
func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// catchUp returns when everything that the broker has now was read.
func (r *reader) catchUp(ctx context.Context) error {
	return until(ctx, 100*time.Millisecond, func() error {
		for p := range int32(partitions) {
			newest, err := r.client.GetOffset(r.topic, p, sarama.OffsetNewest)
			if err != nil {
				return err
			}
			r.mu.Lock()
			next := r.next[p]
			r.mu.Unlock()
			if next < newest {
				return fmt.Errorf("partition %d: %d of %d records read", p, next, newest)
			}
		}
		return nil
	})
}

func (r *reader) close() error {
	close(r.stopped)
	r.wg.Wait()
	return errors.Join(r.consumer.Close(), r.client.Close())
}
