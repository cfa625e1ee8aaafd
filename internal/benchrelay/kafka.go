package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// farAway is how long a message to the far broker, or its answer, is on its way.
const farAway = time.Millisecond

func (b *bench) kafkaDirect(ctx context.Context) error { return b.toKafka(ctx, nil) }

func (b *bench) kafkaSlow(ctx context.Context) error {
	dialer := &slowDialer{delay: farAway}
	defer dialer.close()
	return b.toKafka(ctx, dialer)
}

// toKafka compares what publishes to Kafka: sarama alone, which is the limit; the relay; Watermill's forwarder.
func (b *bench) toKafka(ctx context.Context, dialer *slowDialer) error {
	for _, keys := range []int{backlogKeys, 1} {
		if err := b.toTopic(ctx, dialer, keys); err != nil {
			return err
		}
	}
	return nil
}

// servers are the processes that share the machine's cores in the figures about Kafka.
func (b *bench) servers() (processes, error) {
	u, err := url.Parse(b.postgres.dsn)
	if err != nil {
		return nil, fmt.Errorf("parsing the connection string of PostgreSQL, which must be a URL: %w", err)
	}
	kafka, _, _ := strings.Cut(b.kafka, ",")
	found, err := findProcesses(map[string]string{itsPostgreSQL: u.Host, itsKafka: kafka})
	if err != nil {
		return nil, fmt.Errorf("looking for the processes of the servers: %w", err)
	}
	return found, nil
}

func (b *bench) toTopic(ctx context.Context, dialer *slowDialer, keys int) error {
	k, err := b.newBroker(dialer)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(k.addresses, k.config())
	if err != nil {
		return fmt.Errorf("connecting a bare producer: %w", err)
	}
	defer producer.Close()
	batches, err := kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: k.addresses, Sarama: k.config(), Logger: b.log})
	if err != nil {
		return err
	}
	defer batches.Close() //nolint:errcheck // all it had is published
	singles, err := wkafka.NewPublisher(wkafka.PublisherConfig{Brokers: k.addresses, Marshaler: kafka.Marshaler{}, OverwriteSaramaConfig: k.config()}, nil)
	if err != nil {
		return fmt.Errorf("connecting watermill-kafka: %w", err)
	}
	defer singles.Close() //nolint:errcheck // likewise

	servers, err := b.servers()
	if err != nil {
		b.log.WarnContext(ctx, "no times of processors, for which the servers must be on this machine", slog.Any("error", err))
	}

	// The broker's own code is slow when it is new.
	if err := k.bare(ctx, producer, b.size(warmEvents), keys); err != nil {
		return err
	}
	c := b.ordinaryBacklog()
	c.topic, c.keys = k.topic, keys
	const limit, ours, theirs = "bare", "relay", "forwarder"
	m, err := b.turns(ctx,
		variant{name: limit, run: func(ctx context.Context) (sample, error) {
			return servers.costs(c.pending, func() (sample, error) {
				begin := time.Now()
				err := k.bare(ctx, producer, c.pending, keys)
				return rate(c.pending, time.Since(begin)), err
			})
		}},
		variant{name: ours, run: func(ctx context.Context) (sample, error) {
			d, err := b.outbox(ctx, b.postgres, c)
			if err != nil {
				return nil, err
			}
			s, err := servers.costs(c.pending, func() (sample, error) {
				return b.profiled(fmt.Sprintf("%d-keys", keys), func() (sample, error) {
					_, took, err := b.drain(ctx, d, batches, relay.Config{})
					return rate(c.pending, took), err
				})
			})
			if err != nil {
				return nil, err
			}
			return s, bounded(ctx, d.drop)
		}},
		variant{name: theirs, run: func(ctx context.Context) (sample, error) { return b.forward(ctx, singles, k.topic, keys) }},
	)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s keys", number(float64(keys)))
	if keys == 1 {
		what = "one key"
	}
	b.compare(what, m, limit, ours)
	b.row(what, ours+" : "+theirs, m.ratios(ours, theirs, perSecond))
	b.row(what, theirs+perSecond, m.of(theirs, perSecond))
	for _, name := range []string{limit, ours} {
		if servers == nil {
			break
		}
		for _, process := range []string{thisProcess, itsPostgreSQL, itsKafka, together} {
			b.row(what, name+": "+cpuMeasure(process), m.of(name, cpuMeasure(process)))
		}
	}
	if err := bounded(ctx, k.drop); err != nil {
		return err
	}
	return b.forget(ctx)
}
