package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/chain"
	"github.com/gormoutbox/outbox/relay"
)

// app is a router with the handlers and the relay.
type app struct {
	router  *message.Router
	once    *dedup.Deduplicator
	stopped chan error // what router.Run has returned, if it was started
}

func newApp(db *gorm.DB, broker *broker, post *carrier) (*app, error) {
	quiet := slog.New(slog.DiscardHandler) // failures are part of the story here
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(quiet))
	if err != nil {
		return nil, err
	}
	once, err := dedup.New(db, dedup.Config{})
	if err != nil {
		return nil, err
	}
	// Outermost first: the duplicator delivers everything twice, as brokers do now and then.
	router.AddMiddleware(middleware.Duplicator)
	if err := chain.Install(router, once, chain.Config{}); err != nil {
		return nil, err
	}

	m, err := newMarshaler()
	if err != nil {
		return nil, err
	}
	b, err := newBuses(db, m)
	if err != nil {
		return nil, err
	}
	if err := addHandlers(router, broker, m, handlers{buses: b, post: post}); err != nil {
		return nil, err
	}

	// The relay runs within the router, from its start until it is drained.
	r, err := relay.New(db, broker, relay.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	router.AddPlugin(r.RouterPlugin)
	return &app{router: router, once: once, stopped: make(chan error, 1)}, nil
}

// start returns when the handlers can get messages. What is started is ended by stop.
func (a *app) start(ctx context.Context) error {
	go func() {
		a.stopped <- a.router.Run(ctx)
		close(a.stopped)
	}()
	select {
	case <-a.router.Running():
		return nil
	case err := <-a.stopped:
		return fmt.Errorf("the router did not start: %w", err)
	}
}

// stop lets the handlers finish and waits for all that start has started.
func (a *app) stop() error {
	err := a.router.Close()
	return errors.Join(err, <-a.stopped)
}
