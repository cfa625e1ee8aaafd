package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/dedup/chain"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// service is what would be a process of its own: a database, a router with
// handlers, and a relay.
type service struct {
	name    string
	db      *gorm.DB
	client  *client
	router  *message.Router
	outbox  message.Publisher // for the router, see newService
	closeDB func()
	stopped chan error // what router.Run has returned, if it was started
}

// newService opens the service's database and prepares all but the handlers.
func newService(ctx context.Context, dir, name string, b *broker, models ...any) (*service, error) {
	db, closeDB, err := openDatabase(ctx, filepath.Join(dir, name+".db"), models...)
	if err != nil {
		return nil, err
	}
	s := &service{name: name, db: db, client: b.connect(name), closeDB: closeDB, stopped: make(chan error, 1)}
	if err := s.prepare(); err != nil {
		closeDB()
		return nil, err
	}
	return s, nil
}

func (s *service) prepare() (err error) {
	quiet := slog.New(slog.DiscardHandler) // failures are part of the story here
	logger := watermill.NewSlogLogger(quiet)
	if s.router, err = message.NewRouter(message.RouterConfig{}, logger); err != nil {
		return err
	}
	once, err := dedup.New(s.db, dedup.Config{})
	if err != nil {
		return err
	}
	// The chain has Retry outside of dedup, so that each attempt has a transaction of its own. What it gives up comes again from the broker.
	retry := &middleware.Retry{MaxRetries: 3, InitialInterval: 10 * time.Millisecond, Multiplier: 2, Logger: logger}
	if err := chain.Install(s.router, once, chain.Config{Retry: retry}); err != nil {
		return err
	}

	// Router.AddHandler wants a publisher. Under dedup there is nothing left for it to publish, and this one could
	// not go past the outbox.
	if s.outbox, err = watermilladapter.NewPublisher(s.db, watermilladapter.PublisherConfig{}); err != nil {
		return err
	}
	r, err := relay.New(s.db, s.client, relay.Config{Logger: quiet})
	if err != nil {
		return err
	}
	s.router.AddPlugin(r.RouterPlugin)
	return nil
}

// start returns when the handlers can get messages. What is started is ended by stop.
func (s *service) start(ctx context.Context) error {
	go func() {
		s.stopped <- s.router.Run(ctx)
		close(s.stopped)
	}()
	select {
	case <-s.router.Running():
		return nil
	case err := <-s.stopped:
		return fmt.Errorf("the router of %s did not start: %w", s.name, err)
	}
}

// stop lets the handlers and the relay finish, and waits for all that start has started.
func (s *service) stop() error {
	err := s.router.Close()
	return errors.Join(err, <-s.stopped)
}
