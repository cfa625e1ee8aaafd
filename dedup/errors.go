package dedup

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gormoutbox/outbox/internal/migrate"
)

var (
	// ErrNoConsumer is returned for a message outside of a router when Config.Consumer is empty.
	ErrNoConsumer = errors.New("dedup: no consumer name: set Config.Consumer, or run the handler in a Watermill router, whose handler's name is used")
	// ErrNoMessageID is returned for a message without an id.
	ErrNoMessageID = errors.New("dedup: the message has no id: let the producer set the UUID, or set Config.MessageID to find the id elsewhere; Do takes the id that the sender gives each delivery of the same thing")
	// ErrKeyTooLong is returned for an id or a handler's name that the table can't hold.
	ErrKeyTooLong = errors.New("dedup: more than " + strconv.Itoa(MaxKeyLength) + " bytes: hash it in Config.MessageID, or set Config.Consumer")
	// ErrKeyText is returned for an id or a handler's name with NUL or invalid UTF-8.
	ErrKeyText = errors.New("dedup: not text: it has NUL or invalid UTF-8; encode it in Config.MessageID, or set Config.Consumer")
	// ErrNested is returned for a message that is being handled in a transaction already.
	ErrNested = errors.New("dedup: the message is already in a transaction of dedup: the middleware is installed twice, " +
		"on the router and on the handler for example; remove one")
	// ErrProducedMessages is returned when the handler returned messages that could not be taken into the outbox; see ProducedMessagesError.
	ErrProducedMessages = errors.New("dedup: the handler returned messages")
	// ErrBusy is returned when another delivery of the message, or another message of its stream (Config.Sequence), was still being handled
	// after Config.LockTimeout.
	ErrBusy = errors.New("dedup: another delivery of the message, or a message of its stream, is still being handled after Config.LockTimeout")
	// ErrEndedByHandler is returned when the handler has committed or rolled back the transaction of the middleware. If it has committed, the
	// next delivery is a duplicate, and messages that the handler returned are lost.
	ErrEndedByHandler = errors.New("dedup: the handler has ended the transaction by itself: leave Commit and Rollback of dedup.Tx to the middleware, and return an error to roll back")
	// ErrEndsTransaction is returned to a handler for a statement that would end the transaction of the middleware. It was not run.
	ErrEndsTransaction = errors.New("dedup: the statement would end the transaction of the message, which the middleware does; " +
		"on MySQL and MariaDB so do those that define tables: move it out of the handler")
	// ErrNoMiddleware is the error of all calls on what Tx returned without a transaction; see NoMiddlewareError.
	ErrNoMiddleware = errors.New("dedup: no transaction in this context")
	// ErrCommitTimeout is returned when the message's context was done and the
	// handler and the commit took longer than Config.CommitTimeout after that.
	ErrCommitTimeout = errors.New("dedup: rolled back after Config.CommitTimeout")
	// ErrDatabase is in errors that are about the database, or the way to it, and not about the message: no transaction could be begun, the
	// record could not be written, or the connection was lost while the handler ran or at the commit. The message must come again.
	ErrDatabase = errors.New("dedup: the database failed, not the handler")
	// ErrNotRecorded is returned when the database neither inserted the record nor has it,
	// because a trigger suppressed it for example. The handler did not run.
	ErrNotRecorded = errors.New("dedup: the database did not insert the record, nor is it a duplicate")
)

// ConfigError is a mistake in Config. New joins all that it finds.
type ConfigError struct {
	// Field names the field of Config, or the parameter.
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("dedup: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// KeyError is a message that can't be recorded. Nothing was begun. Every
// delivery of the message fails in the same way.
type KeyError struct {
	// Part is "consumer", "message id" or "stream".
	Part  string
	Value string
	// Err is ErrNoConsumer, ErrNoMessageID, ErrKeyTooLong or ErrKeyText.
	Err error
}

// Error implements error.
func (e *KeyError) Error() string {
	const shown = 64
	if e.Value == "" {
		return e.Err.Error()
	}
	if len(e.Value) > shown {
		return fmt.Sprintf("%v (%s %q… of %d bytes)", e.Err, e.Part, e.Value[:shown], len(e.Value))
	}
	return fmt.Sprintf("%v (%s %q)", e.Err, e.Part, e.Value)
}

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }

// ProducedMessagesError says that a handler returned messages that could not be taken into the outbox. The router
// would publish them after the commit: if that failed they were lost, since the next
// delivery is a duplicate. The transaction was rolled back and nothing was
// published. It is ErrProducedMessages.
type ProducedMessagesError struct {
	Consumer string
	// Topic is where the router would have published, empty outside of a router and for a consumer handler.
	Topic string
	Count int
	// Cause says why the outbox can't take them, Cure what to do.
	Cause, Cure string
}

// Error implements error.
func (e *ProducedMessagesError) Error() string {
	return fmt.Sprintf("%v: consumer %q, %d for topic %q: %s; they would be lost if the router's publishing failed after the commit, so it was rolled back; %s",
		ErrProducedMessages, e.Consumer, e.Count, e.Topic, e.Cause, e.Cure)
}

// Unwrap returns ErrProducedMessages.
func (e *ProducedMessagesError) Unwrap() error { return ErrProducedMessages }

// NoMiddlewareError says that Tx was called with a context that no Middleware
// has put a transaction into. It is ErrNoMiddleware.
type NoMiddlewareError struct {
	// Handler is the name of the router's handler, empty outside of a router.
	Handler string
}

// Error implements error.
func (e *NoMiddlewareError) Error() string {
	where := "outside of a router"
	if e.Handler != "" {
		where = fmt.Sprintf("handler %q", e.Handler)
	}
	return fmt.Sprintf("%v: Deduplicator.Middleware did not run (%s); "+
		"call router.AddMiddleware(d.Middleware) and give Tx the message's context or one made from it", ErrNoMiddleware, where)
}

// Unwrap returns ErrNoMiddleware.
func (e *NoMiddlewareError) Unwrap() error { return ErrNoMiddleware }

// SchemaError says how the table differs from what this version needs.
type SchemaError struct {
	// Problems has one entry for everything that is missing or wrong.
	Problems []string

	err error
}

// Error implements error.
func (e *SchemaError) Error() string {
	cure := "run dedup.Migrate or apply the files of dedup.Migrations"
	if m, ok := errors.AsType[*migrate.Mismatch](e.err); ok {
		cure = m.Cure("dedup")
	}
	return "dedup: schema: " + e.err.Error() + "; " + cure
}

// Unwrap returns the error behind.
func (e *SchemaError) Unwrap() error { return e.err }
