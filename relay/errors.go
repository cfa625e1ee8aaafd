package relay

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrRunning is returned by Run when the relay runs already or has run: one value serves one Run.
var ErrRunning = errors.New("relay: it runs already or has run; make a new relay for each Run")

// ErrShutdownTimeout is returned by Run when publishes were still in flight at
// the end of Config.ShutdownTimeout. What they did is unknown, so their events
// stay pending and will be published again.
var ErrShutdownTimeout = errors.New("relay: publishes were still in flight after ShutdownTimeout")

// PublishError is a failed attempt that was charged to its event, as Config.OnError gets it.
type PublishError struct {
	EventID                    uuid.UUID
	EventType                  string
	AggregateType, AggregateID string
	Topic                      string
	// Attempts is how many are charged to the event now, and Parked says that there will be no further one by itself.
	Attempts int
	Parked   bool

	err error
}

// Error implements error. It has no payload and no aggregate id.
func (e *PublishError) Error() string {
	end := "it is tried again"
	if e.Parked {
		end = "it is parked"
	}
	return fmt.Sprintf("relay: publishing event %s (%s) to %s failed %d times, %s: %v", e.EventID, e.EventType, e.Topic, e.Attempts, end, e.err)
}

// Unwrap returns the publisher's error.
func (e *PublishError) Unwrap() error { return e.err }

// ErrPublishTimeout is, as the error of an event, what a publisher that did not return within Config.PublishTimeout
// leaves: the event may have been published, and is published again.
var ErrPublishTimeout = errors.New("relay: the publisher did not return within PublishTimeout; whether the event was published is unknown")

// ErrReadUncommitted is returned by Run when the sessions of its pool on MySQL or MariaDB have that
// isolation level: events would be published whose transaction may still be rolled back.
var ErrReadUncommitted = errors.New("relay: the sessions of the pool are at READ UNCOMMITTED, where events can be read that are never committed; " +
	"set transaction_isolation (MariaDB: tx_isolation), of the server or in the DSN, to READ-COMMITTED or higher")

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
