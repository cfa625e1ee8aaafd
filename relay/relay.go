package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/internal/pause"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// Relay publishes the events of one outbox. Any number of relays, in any number of
// processes, may share the tables.
type Relay struct {
	config  Config
	db      *gorm.DB
	store   *store
	reader  reader
	sender  sender
	settler settler
	leases  *leases
	wake    *gormoutbox.Plugin // nil without a plugin on db
	started atomic.Bool
	health  health
	size    pageSize
	// firstSweep and retainEvery are the constants, except in tests.
	firstSweep, retainEvery time.Duration
}

// New returns a relay for the outbox in db. It makes no connection and starts
// nothing. The publisher stays the caller's and is not closed. If the plugin of
// package gormoutbox is registered on db, saves in this process wake the relay.
//
// All mistakes are returned together, as *ConfigError.
func New(db *gorm.DB, publisher message.Publisher, config Config) (*Relay, error) {
	if known, ok := publisher.(watermilladapter.ErrorClassifier); ok && config.Classify == nil {
		config.Classify = func(err error) Class {
			switch {
			case known.IsPermanent(err):
				return Permanent
			case known.IsOutage(err):
				return Outage
			default:
				return Unknown
			}
		}
	}
	config = config.withDefaults()
	errs := []error{config.validate()}
	if isNil(publisher) {
		errs = append(errs, &ConfigError{"publisher", "it is nil", "pass a Watermill publisher"})
	}
	d, err := dialect.For(db)
	if err != nil {
		errs = append(errs, &ConfigError{"db", err.Error(), "pass an open *gorm.DB of a supported database"})
		return nil, errors.Join(errs...)
	}
	if isTransaction(db) {
		errs = append(errs, &ConfigError{"db", "it is a transaction, which ends before the relay", "pass the *gorm.DB from gorm.Open"})
	}
	plugin, err := pluginFor(db, config.Table)
	if err != nil {
		errs = append(errs, &ConfigError{"Table", err.Error(), "say which table this relay is for"})
	}
	if config.Table == "" && plugin != nil {
		config.Table = plugin.Tables().Events
	}
	if err := gormoutbox.ValidateTable(gormoutbox.TablesFor(config.Table).Events); err != nil {
		errs = append(errs, &ConfigError{"Table", err.Error(), "see gormoutbox.Config.Table"})
	}
	pool, err := db.DB()
	if err != nil {
		errs = append(errs, &ConfigError{"db", err.Error(), "pass an open *gorm.DB"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	tables := gormoutbox.TablesFor(config.Table)
	config.Table = tables.Events
	s := newStore(pool, d, tables)
	s.remove, s.pageBytes = config.DeleteOnPublish, config.BatchBytes
	r := &Relay{config: config, db: db, store: s, settler: s, wake: plugin, firstSweep: firstSweep, retainEvery: retainEvery}
	r.size = pageSize{config.BatchSize, config.BatchSize}
	r.leases = newLeases(s, config.ID, config.Lease)
	if batch, ok := publisher.(watermilladapter.BatchPublisher); ok {
		r.sender = &batches{publisher: batch, timeout: config.PublishTimeout, valid: r.leases.valid}
	} else {
		r.sender = &lanes{publisher: publisher, workers: config.Lanes, timeout: config.PublishTimeout, valid: r.leases.valid}
	}
	switch d.Name() {
	case "postgres":
		r.reader = newPostgresReader(s)
	case "mysql":
		r.reader = newMySQLReader(s, config.SettleWindow)
	default:
		r.reader = newSQLiteReader(s)
	}
	return r, nil
}

func isTransaction(db *gorm.DB) bool {
	pool := db.Statement.ConnPool
	if _, ok := pool.(gorm.TxCommitter); !ok {
		return false
	}
	switch pool.(type) {
	case gorm.TxBeginner, gorm.ConnPoolBeginner:
		return false // a pool that can do both, as that of the sharding plugin
	}
	return true
}

// pluginFor finds the plugin that writes to the table, nil if there is none.
func pluginFor(db *gorm.DB, table string) (*gormoutbox.Plugin, error) {
	if table != "" {
		for _, plugin := range db.Plugins {
			if p, ok := plugin.(*gormoutbox.Plugin); ok && p.Tables().Events == table {
				return p, nil
			}
		}
		return nil, nil
	}
	plugin, err := gormoutbox.On(db)
	if errors.Is(err, gormoutbox.ErrNotRegistered) {
		return nil, nil
	}
	return plugin, err
}

// Run publishes until ctx ends. It then reads no more events, waits for the
// publishes in flight up to Config.ShutdownTimeout, records what they did, gives its
// partitions back and returns nil. No goroutine of the relay is left, except those
// whose Publish does not return, in which case the error is ErrShutdownTimeout.
//
// A database or broker that is away does not end Run: it waits and goes on. Run
// returns at once with a *gormoutbox.SchemaError if the tables are not what it needs, with ErrReadUncommitted, also later on, if
// the sessions are not, and with ErrRunning if it was called before.
func (r *Relay) Run(ctx context.Context) error { return r.run(ctx, nil) }

// run is Run; idle, unless nil, is called after each pass that found no event.
func (r *Relay) run(ctx context.Context, idle func(context.Context)) error {
	if !r.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	if err := r.check(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	// Work goes on for a while when ctx has ended.
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	timer := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(r.config.ShutdownTimeout, giveUp)
		context.AfterFunc(work, func() { t.Stop() })
	})
	defer timer()

	beat, stopBeat := context.WithCancel(work)
	var wg sync.WaitGroup
	wg.Go(func() { r.heartbeat(beat) })
	wg.Go(func() { r.retain(beat) })
	wg.Go(func() { r.watchPartitions(beat) })

	r.health.running(true)
	defer r.health.running(false)
	fatal := r.loop(ctx, work, idle)

	stopBeat()
	wg.Wait()
	timedOut := !r.sender.wait(work) || work.Err() != nil
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.ShutdownTimeout)
	defer cancel()
	if err := r.leases.release(end, r.reader.low); err != nil {
		r.log(ctx, slog.LevelWarn, "relay could not give back its partitions; they are free when the lease has run out", err)
	}
	if timedOut {
		return errors.Join(fatal, ErrShutdownTimeout)
	}
	return fatal
}

// check waits for the database and compares the schema.
func (r *Relay) check(ctx context.Context) error {
	for n := 1; ; n++ {
		err := r.suits(ctx)
		if err == nil || incurable(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it began
		}
		r.log(ctx, slog.LevelError, "relay can't check its tables and tries again", err)
		if !pause.Sleep(ctx, pause.Backoff(r.config.MinBackoff, maxDatabasePause, n)) {
			return nil
		}
	}
}

// mismatch looks once at the tables and returns what no waiting can cure.
func (r *Relay) mismatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.Lease)
	defer cancel()
	if err := r.suits(ctx); incurable(err) {
		return err
	}
	return nil
}

// suits looks whether the relay can work with the tables and the sessions.
func (r *Relay) suits(ctx context.Context) error {
	if err := gormoutbox.CheckTable(ctx, r.db, r.config.Table); err != nil {
		return err
	}
	return r.store.checkIsolation(ctx)
}

func incurable(err error) bool {
	var schema *gormoutbox.SchemaError
	var config *gormoutbox.ConfigError
	return errors.As(err, &schema) || errors.As(err, &config) || errors.Is(err, ErrReadUncommitted)
}

// heartbeatGrace is how long a beat may go on when the relay stops. One that is cut off may still be carried out by the
// database, after the relay has signed off.
const heartbeatGrace = time.Second

// heartbeat renews the leases while the loop may be waiting for a publisher. The
// first beat tells the others that there is one more to share with.
func (r *Relay) heartbeat(ctx context.Context) {
	for ok := true; ok; ok = pause.Sleep(ctx, r.config.Lease/3) {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.Lease)
		unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(heartbeatGrace, cancel) })
		err := r.leases.renew(c)
		unwatch()
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log(ctx, slog.LevelError, "relay could not renew its leases", err)
		}
	}
}

func (r *Relay) log(ctx context.Context, level slog.Level, msg string, err error) {
	r.noticed(err)
	//nolint:sloglint // the callers' messages are constants
	r.config.Logger.LogAttrs(ctx, level, msg, slog.String("relay", r.config.ID), slog.String("table", r.config.Table), slog.Any("error", err))
}

// isNil says whether there is no publisher, be it as a nil pointer.
func isNil(p message.Publisher) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// String names the relay.
func (r *Relay) String() string { return fmt.Sprintf("relay %s of %s", r.config.ID, r.config.Table) }
