package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// events are rows of the outbox that are written by the database itself, as a million of them take too long otherwise.
type events struct {
	aggregate string // type
	topic     string
	n         int
	keys      int  // aggregates, which take turns
	processed bool // published already
}

// payloadBytes is the size of every payload.
const payloadBytes = 256

// fillStep is how many events one statement writes: so many seconds pass until Ctrl-C is heard.
const fillStep = 100_000

// partitions are those of the aggregates 0, 1, 2 and so on.
func (e events) partitions() []int {
	parts := make([]int, e.keys)
	for i := range parts {
		parts[i] = gormoutbox.Partition(e.aggregate, strconv.Itoa(i), gormoutbox.DefaultPartitions)
	}
	return parts
}

// server is a kind of database.
type server interface {
	// kind is what the report calls it.
	kind() string
	// create makes an empty database and says how to connect to it.
	create(ctx context.Context, name string) (dsn string, err error)
	drop(ctx context.Context, name string) error
	dialector(dsn string) gorm.Dialector
	// insert writes n events beginning with number first.
	insert(ctx context.Context, pool *sql.DB, e events, first, n int) error
	// analyze gives the planner its statistics, and leaves nothing that the first reader would have to do.
	analyze(ctx context.Context, pool *sql.DB) error
}

// database is one of ours.
type database struct {
	server  server
	name    string
	dsn     string
	dropped bool
}

// empty makes a database with the tables of an outbox and no event.
func (b *bench) empty(ctx context.Context, s server) (*database, error) {
	d := &database{server: s, name: newName()}
	b.later(d.drop) // before it is there: it may be there after an error
	var err error
	if d.dsn, err = s.create(ctx, d.name); err != nil {
		return nil, fmt.Errorf("creating a database: %w", err)
	}
	err = d.use(func(db *gorm.DB) error { return gormoutbox.Migrate(ctx, db) })
	if err != nil {
		return nil, fmt.Errorf("creating the tables: %w", err)
	}
	return d, nil
}

// drop may be called again.
func (d *database) drop(ctx context.Context) error {
	if d.dropped {
		return nil
	}
	if err := d.server.drop(ctx, d.name); err != nil {
		return fmt.Errorf("dropping %s: %w", d.name, err)
	}
	d.dropped = true
	return nil
}

// open opens a pool of its own, as another process would have.
func (d *database) open() (*gorm.DB, *sql.DB, error) {
	db, err := gorm.Open(d.server.dialector(d.dsn), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", d.name, err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", d.name, err)
	}
	return db, pool, nil
}

// use opens the database for a while.
func (d *database) use(fn func(db *gorm.DB) error) error {
	db, pool, err := d.open()
	if err != nil {
		return err
	}
	defer pool.Close()
	return fn(db)
}

// pool is use without GORM.
func (d *database) pool(fn func(pool *sql.DB) error) error {
	_, pool, err := d.open()
	if err != nil {
		return err
	}
	defer pool.Close()
	return fn(pool)
}

// fill writes events, and the statistics about them.
func (d *database) fill(ctx context.Context, e events) error {
	return d.pool(func(pool *sql.DB) error {
		for first := 0; first < e.n; first += fillStep {
			if err := d.server.insert(ctx, pool, e, first, min(fillStep, e.n-first)); err != nil {
				return fmt.Errorf("writing events: %w", err)
			}
		}
		if err := d.server.analyze(ctx, pool); err != nil {
			return fmt.Errorf("analyzing: %w", err)
		}
		return nil
	})
}
