// Package chain installs the middlewares that consumers under dedup should have, in the order in which they do no harm:
//
//	d, err := dedup.New(db, dedup.Config{})
//	err = chain.Install(router, d, chain.Config{PoisonPublisher: publisher, PoisonTopic: "poison"})
//
// Outermost first: metrics, PoisonQueue, Retry, Timeout, dedup, CorrelationID, Recoverer. The package dedup says why.
package chain

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gormoutbox/outbox/dedup"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 30 * time.Second

// NoLimit is a Config.Timeout without an end.
const NoLimit = dedup.NoLimit

// Config configures Install. The zero value is ready to use, without a poison queue.
type Config struct {
	// Metrics is a middleware that measures handlers, such as the one of Watermill's components/metrics. To it a duplicate looks like a
	// success; Deduplicator.Stats tells them apart. Defaults to none.
	Metrics message.HandlerMiddleware
	// PoisonPublisher and PoisonTopic are where messages go that can't be handled. A watermilladapter.Publisher with
	// OwnTransaction takes them into the outbox, so that they are there even while the broker is away. What an outbox refuses, a UUID that is no text for example,
	// goes there under a new UUID, with the old one in the metadata PoisonedUUID, and metadata that could not be kept quoted, or with poisoned_ before its name. Without them such messages are nacked, and what comes of that
	// is up to the broker: Kafka's consumer does not go on behind one. Defaults to none; set both.
	PoisonPublisher message.Publisher
	PoisonTopic     string
	// Poison says which errors send a message there, after the last attempt; others nack it, so that it comes again.
	// Defaults to IsPoison.
	Poison func(err error) bool
	// Retry is how often and when a handler is tried again. Attempts that fail because of dedup's database count apart, as many in a row, and then the message
	// is nacked. ResetContextOnRetry is set in any case. Defaults to five retries after 100 ms to 10 s,
	// of all errors but those of which dedup knows that they stay.
	Retry *middleware.Retry
	// Timeout is how long one attempt may take, with its wait for another delivery of the message. Defaults to DefaultTimeout; NoLimit means no limit.
	Timeout time.Duration
}

// ConfigError is a mistake in Config or in the arguments of Install.
type ConfigError struct {
	// Field names the field of Config, or the parameter.
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("dedup/chain: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// Install adds the middlewares to the router and the plugin of d, which removes old records and checks the order of all middlewares when the router
// starts. Middlewares that are added to the router or to a handler later stand further inside, those that were added before further outside.
//
// Mistakes are returned together, each a *ConfigError, and nothing is added then.
func Install(router *message.Router, d *dedup.Deduplicator, config Config) error {
	var errs []error
	fail := func(field, cause, cure string) { errs = append(errs, &ConfigError{field, cause, cure}) }
	if router == nil {
		fail("router", "it is nil", "pass a Watermill router")
	}
	if d == nil {
		fail("d", "it is nil", "pass what dedup.New returned")
	}
	if (config.PoisonPublisher == nil) != (config.PoisonTopic == "") {
		fail("PoisonTopic", "only one of PoisonPublisher and PoisonTopic is set", "set both, or none")
	}
	if config.Timeout < 0 {
		fail("Timeout", fmt.Sprintf("%s is negative", config.Timeout), "leave it out for "+DefaultTimeout.String())
	}
	if r := config.Retry; r != nil && (r.MaxRetries < 0 || r.InitialInterval < 0 || r.MaxInterval < 0) {
		fail("Retry", "it has negative numbers", "see Watermill's middleware.Retry")
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	poison := config.Poison
	if poison == nil {
		poison = IsPoison
	}
	if config.Metrics != nil {
		router.AddMiddleware(config.Metrics)
	}
	if config.PoisonPublisher != nil {
		queue, err := middleware.PoisonQueueWithFilter(taking{config.PoisonPublisher}, config.PoisonTopic, poison)
		if err != nil {
			return fmt.Errorf("dedup/chain: %w", err) // not reached: it is about the topic
		}
		router.AddMiddleware(queue)
	}
	handler, database := retries(config.Retry)
	router.AddMiddleware(restoreContext, handler.Middleware, database.Middleware)
	switch config.Timeout {
	case NoLimit:
	case 0:
		router.AddMiddleware(middleware.Timeout(DefaultTimeout))
	default:
		router.AddMiddleware(middleware.Timeout(config.Timeout))
	}
	router.AddMiddleware(d.Middleware, middleware.CorrelationID, middleware.Recoverer)
	router.AddPlugin(d.RouterPlugin)
	return nil
}

// restoreContext gives a message its old context again, since PoisonQueue publishes with the one that it has then, and Timeout leaves one that has ended.
func restoreContext(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		defer msg.SetContext(msg.Context())
		return h(msg)
	}
}

// retries returns two: the outer one runs the handler again, the inner one what has not come as far, or had its database taken away. If they were one,
// an outage would use up the attempts of a message that then fails for the first time.
func retries(own *middleware.Retry) (handler, database middleware.Retry) {
	r := middleware.Retry{
		MaxRetries: 5, InitialInterval: 100 * time.Millisecond, MaxInterval: 10 * time.Second, Multiplier: 3, RandomizationFactor: 0.5,
		ShouldRetry: func(p middleware.RetryParams) bool { return !stays(p.Err) },
	}
	if own != nil {
		r = *own
	}
	r.ResetContextOnRetry = true // or attempts begin with the context that Timeout has ended
	handler, database = r, r
	handler.ShouldRetry = func(p middleware.RetryParams) bool {
		return !unavailable(p.Err) && (r.ShouldRetry == nil || r.ShouldRetry(p))
	}
	database.ShouldRetry = func(p middleware.RetryParams) bool { return unavailable(p.Err) }
	return handler, database
}

// unavailable says that the message was not handled because of something else than its handler.
func unavailable(err error) bool {
	_, held := errors.AsType[*dedup.GapError](err)
	return held || errors.Is(err, dedup.ErrDatabase) || errors.Is(err, dedup.ErrBusy)
}

// stays says whether the message would fail in the same way each time.
func stays(err error) bool {
	if _, ok := errors.AsType[*dedup.KeyError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*dedup.OrderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*dedup.SequenceError](err); ok {
		return true
	}
	return errors.Is(err, dedup.ErrProducedMessages) || errors.Is(err, dedup.ErrNested)
}

// IsPoison is what Config.Poison is by default. An error is not about the message if its handling was ended by the router's closing, if another
// delivery of it is being handled, if the connection to the database or to something else in the network failed, or if the middlewares stand in a harmful order.
func IsPoison(err error) bool {
	// The end of the handler's time is a net.Error, too; and network errors of a time that is up say that they are the end of a context.
	if _, ok := errors.AsType[net.Error](err); ok && !has(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[*dedup.OrderError](err); ok || unavailable(err) {
		return false
	}
	for _, other := range []error{context.Canceled, driver.ErrBadConn, sql.ErrConnDone, net.ErrClosed} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// has says whether an error is, or wraps, the very value.
func has(err, value error) bool {
	if err == value { //nolint:errorlint // that is the point
		return true
	}
	switch e := err.(type) { //nolint:errorlint // each one of the chain comes by
	case interface{ Unwrap() error }:
		return has(e.Unwrap(), value)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return has(err, value) })
	}
	return false
}
