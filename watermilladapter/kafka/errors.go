package kafka

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by a Publisher that has been closed.
var ErrClosed = errors.New("watermilladapter/kafka: the publisher is closed")

// ConfigError is a mistake in the arguments of NewPublisher, NewPublisherWith or NewSubscriber.
type ConfigError struct {
	// Field names the argument, Brokers[1] for example.
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("watermilladapter/kafka: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// BehindError is the outcome of a message that PublishBatch has not sent because an earlier
// one of its aggregate in the batch has failed.
type BehindError struct {
	// UUID is that of the message that failed.
	UUID string
}

// Error implements error.
func (e *BehindError) Error() string {
	return fmt.Sprintf("watermilladapter/kafka: not sent: message %s of the same aggregate has failed", e.UUID)
}
