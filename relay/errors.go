package relay

import (
	"errors"
	"fmt"
)

// ErrRunning is returned by Run when the relay runs already or has run: one value serves one Run.
var ErrRunning = errors.New("relay: it runs already or has run; make a new relay for each Run")

// ErrShutdownTimeout is returned by Run when publishes were still in flight at
// the end of Config.ShutdownTimeout. What they did is unknown, so their events
// stay pending and will be published again.
var ErrShutdownTimeout = errors.New("relay: publishes were still in flight after ShutdownTimeout")

// ErrPublishTimeout is, as the error of an event, what a publisher that did not return within Config.PublishTimeout
// leaves: the event may have been published, and is published again.
var ErrPublishTimeout = errors.New("relay: the publisher did not return within PublishTimeout; whether the event was published is unknown")

// errHung is about events that were not tried because the publisher has not returned from earlier ones.
var errHung = errors.New("relay: the publisher has not returned from earlier calls, so nothing more is given to it")

// ConfigError is a mistake in the arguments of New.
type ConfigError struct {
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("relay: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// panicError is a panic of the publisher, which counts as the error of its message.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("relay: the publisher panicked: %v", e.value) }
