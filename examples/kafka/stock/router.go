package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
)

// newRouter puts the handler behind its middlewares, outermost first.
func newRouter(db *gorm.DB, log *slog.Logger, topic string, subscriber message.Subscriber, publisher message.Publisher) (*message.Router, error) {
	logger := watermill.NewSlogLogger(log)
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return nil, err
	}
	// Messages that will never work are put aside, so that they don't block
	// their partition. Others, when the database is away for example, come again.
	poison, err := middleware.PoisonQueueWithFilter(publisher, topic+".poison", permanent)
	if err != nil {
		return nil, err
	}
	// Outside of dedup, so that each attempt has a transaction of its own.
	retry := middleware.Retry{
		MaxRetries:          5,
		InitialInterval:     100 * time.Millisecond,
		MaxInterval:         2 * time.Second,
		Multiplier:          2,
		ResetContextOnRetry: true,
		ShouldRetry:         func(p middleware.RetryParams) bool { return !permanent(p.Err) },
		Logger:              logger,
	}
	// The handler's writes and the record of the message commit together.
	once, err := dedup.New(db, dedup.Config{Consumer: "stock", Logger: log})
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(
		poison,
		retry.Middleware,
		middleware.Timeout(10*time.Second),
		once.Middleware,
		middleware.Recoverer,
	)
	router.AddPlugin(once.RouterPlugin) // removes old records, and checks the order of the middlewares when the router starts
	router.AddConsumerHandler("stock", topic, subscriber, handle)
	return router, nil
}

// permanent says whether an error is about the message itself.
func permanent(err error) bool {
	var unusable *unusableError
	var key *dedup.KeyError // no id, for example, from another producer
	return errors.As(err, &unusable) || errors.As(err, &key)
}
