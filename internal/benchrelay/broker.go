package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	topicPartitions = 8
	bareBatch       = 500
	warmEvents      = 20_000
)

// broker is Kafka as the variants of one case see it: their topic, and the settings that all of their producers have.
type broker struct {
	addresses []string
	topic     string
	dialer    *slowDialer // nil without a delay
}

// newBroker makes a topic.
func (b *bench) newBroker(dialer *slowDialer) (*broker, error) {
	k := &broker{addresses: strings.Split(b.kafka, ","), topic: newName(), dialer: dialer}
	b.later(k.drop)
	admin, err := sarama.NewClusterAdmin(k.addresses, kafka.SubscriberConfig())
	if err != nil {
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	detail := &sarama.TopicDetail{NumPartitions: topicPartitions, ReplicationFactor: 1}
	if err := admin.CreateTopic(k.topic, detail, false); err != nil {
		admin.Close() //nolint:errcheck // the other error says more
		return nil, fmt.Errorf("creating a topic: %w", err)
	}
	return k, admin.Close()
}

func (k *broker) drop(context.Context) error {
	if k.topic == "" {
		return nil
	}
	admin, err := sarama.NewClusterAdmin(k.addresses, kafka.SubscriberConfig())
	if err != nil {
		return fmt.Errorf("connecting to Kafka: %w", err)
	}
	defer admin.Close() //nolint:errcheck // nothing hangs on it
	if err := admin.DeleteTopic(k.topic); err != nil {
		return fmt.Errorf("deleting topic %s: %w", k.topic, err)
	}
	k.topic = ""
	return nil
}

// config is that of every producer: what the relay's publisher has by default, and the way to the broker.
func (k *broker) config() *sarama.Config {
	c := kafka.PublisherConfig()
	if k.dialer != nil {
		c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, k.dialer
	}
	return c
}

// bare sends records that look as the relay's do, in batches as large, one after the other.
func (k *broker) bare(ctx context.Context, producer sarama.SyncProducer, n, keys int) error {
	body := sarama.ByteEncoder(payload())
	made := make([]*sarama.ProducerMessage, keys)
	for i := range made {
		record := gormoutbox.Record{
			AggregateType: ordinary, AggregateID: strconv.Itoa(i), EventType: "a.happened", Payload: body, CreatedAt: time.Now(),
		}
		var err error
		if made[i], err = k.record(record); err != nil {
			return err
		}
	}
	for first := 0; first < n; first += bareBatch {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		batch := make([]*sarama.ProducerMessage, min(bareBatch, n-first))
		for i := range batch {
			m := made[(first+i)%keys]
			batch[i] = &sarama.ProducerMessage{Topic: k.topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
		}
		if err := producer.SendMessages(batch); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
	}
	return nil
}

// record is what the relay's publisher sends for a row.
func (k *broker) record(r gormoutbox.Record) (*sarama.ProducerMessage, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	r.ID = id
	msg, err := watermilladapter.ToMessage(r)
	if err != nil {
		return nil, err
	}
	return kafka.Marshaler{}.Marshal(k.topic, msg)
}
