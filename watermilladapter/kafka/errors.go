package kafka

import "fmt"

// ConfigError is a mistake in the arguments of NewPublisher or NewSubscriber.
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
