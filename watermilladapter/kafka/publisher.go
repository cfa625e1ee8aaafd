package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// closeTimeout bounds how long Close waits for abandoned producers, the
// slowest of which is still dialling.
const closeTimeout = 2 * dialTimeout

// PublisherOptions are the options of NewPublisherWith.
type PublisherOptions struct {
	// Brokers are the addresses to begin with, host:port. Required.
	Brokers []string
	// Logger is told of producers given up. Defaults to slog.Default().
	Logger *slog.Logger
	// Marshaler makes the records. Defaults to the aggregate id as key.
	Marshaler Marshaler
	// Sarama is changed from PublisherConfig's value, for TLS or SASL for example. It must stay
	// idempotent. Defaults to PublisherConfig().
	Sarama *sarama.Config
	// Partitioner replaces that of Sarama unless it is zero.
	// Defaults to PartitionerSarama.
	Partitioner Partitioner
}

// Publisher publishes to Kafka. It connects when it is first used, and
// again after outages. It is safe for concurrent use.
//
// Publish and PublishBatch have a producer each, with a connection of its own. So
// the messages of an aggregate must go through one of the two: order holds within
// each, and not from one to the other.
type Publisher struct {
	marshaler Marshaler
	limit     int // bytes of a message
	log       *slog.Logger
	single    *connection // of Publish
	batches   *connection // of PublishBatch
}

var (
	_ watermilladapter.BatchPublisher  = (*Publisher)(nil)
	_ watermilladapter.ErrorClassifier = (*Publisher)(nil)
)

// IsPermanent implements watermilladapter.ErrorClassifier by the function of that name.
func (*Publisher) IsPermanent(err error) bool { return IsPermanent(err) }

// IsOutage implements watermilladapter.ErrorClassifier by the function of that name.
func (*Publisher) IsOutage(err error) bool { return IsOutage(err) }

// NewPublisher returns a Publisher with Marshaler and PublisherConfig. A nil logger
// means slog.Default().
//
// Mistakes in the arguments are returned together, each as a *ConfigError.
func NewPublisher(brokers []string, logger *slog.Logger) (*Publisher, error) {
	return NewPublisherWith(PublisherOptions{Brokers: brokers, Logger: logger})
}

// NewPublisherWith returns a Publisher with the options.
//
// Mistakes in the options are returned together, each as a *ConfigError.
func NewPublisherWith(options PublisherOptions) (*Publisher, error) {
	errs := checkBrokers(options.Brokers)
	config := PublisherConfig()
	if options.Sarama != nil {
		own := *options.Sarama
		config = &own
	}
	switch options.Partitioner {
	case PartitionerSarama:
	case PartitionerJava:
		config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	default:
		errs = append(errs, &ConfigError{
			Field: "Partitioner", Cause: fmt.Sprintf("there is no partitioner %d", options.Partitioner), Cure: "take PartitionerSarama or PartitionerJava",
		})
	}
	if err := errors.Join(append(errs, checkSarama(config)...)...); err != nil {
		return nil, err
	}
	return &Publisher{
		marshaler: options.Marshaler,
		limit:     config.Producer.MaxMessageBytes,
		log:       cmp.Or(options.Logger, slog.Default()),
		single:    &connection{brokers: options.Brokers, config: config},
		batches:   &connection{brokers: options.Brokers, config: config, strict: true},
	}, nil
}

func checkSarama(c *sarama.Config) []error {
	var errs []error
	for _, must := range []struct {
		is    bool
		field string
		cause string
		cure  string
	}{
		{c.Producer.Idempotent, "Sarama.Producer.Idempotent", "it is false, so retries may reorder", "set it to true"},
		{c.Producer.Transaction.ID == "", "Sarama.Producer.Transaction.ID", "transactions are not supported", "leave it empty"},
		{c.Producer.Return.Successes, "Sarama.Producer.Return.Successes", "it is false, so no outcome would be known", "set it to true"},
		{c.Producer.Return.Errors, "Sarama.Producer.Return.Errors", "it is false, so no outcome would be known", "set it to true"},
		{c.Metadata.SingleFlight, "Sarama.Metadata.SingleFlight", "it is false, so retries of one topic end those of another", "set it to true"},
	} {
		if !must.is {
			errs = append(errs, &ConfigError{Field: must.field, Cause: must.cause, Cure: must.cure})
		}
	}
	if err := c.Validate(); err != nil {
		errs = append(errs, &ConfigError{Field: "Sarama", Cause: err.Error(), Cure: "begin with PublisherConfig()"})
	}
	return errs
}

// Publish publishes the messages one after the other and returns the first error, after which
// it sends no more. It ignores the contexts of the messages; the settings bound it, see RefusedTimeout.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		record, err := p.marshaler.Marshal(topic, msg)
		if err != nil {
			return fmt.Errorf("watermilladapter/kafka: marshalling: %w", err)
		}
		if err := p.publish(record); err != nil {
			return fmt.Errorf("watermilladapter/kafka: publishing message %s: %w", msg.UUID, err)
		}
	}
	return nil
}

func (p *Publisher) publish(record *sarama.ProducerMessage) error {
	ctx := context.Background()
	g, err := p.single.get(ctx)
	if err != nil {
		return err
	}
	return g.send(ctx, []*sarama.ProducerMessage{record})[0].err
}

// Close ends the connections. Calls in progress fail, and their messages may have arrived;
// later ones return ErrClosed. It waits for producers that
// were given up, a few seconds at most. It may be called more than once.
func (p *Publisher) Close() error {
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	single, batches := p.single.close(), p.batches.close()
	for _, ended := range []<-chan struct{}{single, batches} {
		select {
		case <-ended:
		case <-timeout.C:
			return fmt.Errorf("watermilladapter/kafka: closing: a connection has not ended after %s", closeTimeout)
		}
	}
	return nil
}
