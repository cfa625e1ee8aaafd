package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

// cleanUpTimeout bounds one step of cleaning up.
const cleanUpTimeout = time.Minute

// bench is one run of the command.
type bench struct {
	rounds int
	small  bool
	figure string // the one being made
	// profiles is the folder for CPU profiles, or empty, and profile counts them.
	profiles string
	profile  int
	log      *slog.Logger

	postgres postgres
	mariadb  mariadb
	kafka    string // addresses, separated by commas

	templates map[content]*database
	big       *database // of the figures about a large backlog, nil until the first of them
	bigLeft   int       // how many of its events are pending
	undo      []func(context.Context) error
}

func newBench(rounds int, small bool) *bench {
	return &bench{
		rounds: rounds, small: small,
		log:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
		postgres:  postgres{dsn: cmp.Or(os.Getenv(defaults.PostgresVariable), defaults.Postgres)},
		mariadb:   mariadb{dsn: cmp.Or(os.Getenv(defaults.MySQLVariable), defaults.MySQL)},
		kafka:     cmp.Or(os.Getenv(defaults.KafkaVariable), defaults.Kafka),
		templates: map[content]*database{},
	}
}

// size is a number of events, less with -small.
func (b *bench) size(n int) int {
	if b.small {
		return n / 50
	}
	return n
}

// span is how long something is measured, less with -small.
func (b *bench) span(d time.Duration) time.Duration {
	if b.small {
		return max(d/50, time.Second)
	}
	return d
}

// later is done at the end, the last one first, whatever happens before.
func (b *bench) later(fn func(context.Context) error) { b.undo = append(b.undo, fn) }

// cleanUp goes on when ctx has ended, for that is how Ctrl-C arrives.
func (b *bench) cleanUp(ctx context.Context) {
	for _, fn := range slices.Backward(b.undo) {
		err := bounded(ctx, fn)
		if err != nil {
			b.log.ErrorContext(ctx, "something is left behind", slog.Any("error", err))
		}
	}
	b.undo = nil
}

// bounded calls fn, which is to be done even if ctx has ended.
func bounded(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return fn(ctx)
}
