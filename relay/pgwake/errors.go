package pgwake

import (
	"errors"
	"fmt"
)

// ErrRunning is returned by Run when the value runs already or has run: one value serves one Run.
var ErrRunning = errors.New("pgwake: it runs already or has run; make a new one for each Run")

// ErrDeaf is the error of a Listener whose LISTEN succeeded, but which does not get the notification
// that it sends to itself: perhaps it is connected through a pooler in transaction mode. The relays poll
// meanwhile, and the Listener tries again every Config.RetestInterval.
var ErrDeaf = errors.New("pgwake: notifications do not arrive, perhaps because of a transaction pooler such as PgBouncer; relays poll; " +
	"connect the listener to the server itself or to a pool in session mode")

// errNoAnswer is why a connection is given up that says nothing.
var errNoAnswer = errors.New("the server did not answer within Config.Timeout")

// ConfigError is a mistake in the arguments of NewListener or NewNotifier, which join all that they find.
type ConfigError struct {
	// Field names the field of Config, or the parameter.
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("pgwake: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// untestedError says that the test of a Listener could not be made, which tells nothing about what it hears.
type untestedError struct{ err error }

func (e *untestedError) Error() string {
	return fmt.Sprintf("pgwake: could not test whether notifications arrive: %v", e.err)
}

func (e *untestedError) Unwrap() error { return e.err }
