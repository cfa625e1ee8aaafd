package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

// NewSubscriber returns watermill-kafka's subscriber with Marshaler and
// SubscriberConfig, for members of the consumer group. It connects in
// Subscribe. A nil logger means slog.Default().
//
// Mistakes in the arguments are returned together, each as a *ConfigError.
func NewSubscriber(brokers []string, group string, logger *slog.Logger) (*wkafka.Subscriber, error) {
	errs := checkBrokers(brokers)
	if group == "" {
		errs = append(errs, &ConfigError{
			Field: "group", Cause: "it is empty, so every process would get all messages, and again after each start", Cure: "name the consumer, such as \"stock\"",
		})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
		Brokers:               brokers,
		Unmarshaler:           Marshaler{},
		OverwriteSaramaConfig: SubscriberConfig(),
		ConsumerGroup:         group,
	}, adapt(logger))
	if err != nil {
		return nil, fmt.Errorf("watermilladapter/kafka: making the subscriber: %w", err)
	}
	return s, nil
}

func checkBrokers(brokers []string) []error {
	const cure = `pass addresses such as "localhost:9092"`
	if len(brokers) == 0 {
		return []error{&ConfigError{Field: "brokers", Cause: "there are none", Cure: cure}}
	}
	var errs []error
	for i, address := range brokers {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			errs = append(errs, &ConfigError{Field: fmt.Sprintf("brokers[%d]", i), Cause: fmt.Sprintf("%q is not host:port", address), Cure: cure})
		}
	}
	return errs
}

func adapt(logger *slog.Logger) watermill.LoggerAdapter {
	if logger == nil {
		logger = slog.Default()
	}
	return watermill.NewSlogLogger(logger)
}
