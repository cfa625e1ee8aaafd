package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// content is what stands in an outbox before a run.
type content struct {
	topic   string
	pending int
	keys    int
	kept    int // published events below the pending ones
	behind  int // events of one aggregate behind its parked head, below the pending ones
}

// aggregate types of the events
const (
	ordinary = "a"
	hot      = "hot"
)

// payload is that of every event.
func payload() []byte { return bytes.Repeat([]byte("x"), payloadBytes) }

// outbox makes a database with this content. On PostgreSQL it is filled once and then copied.
func (b *bench) outbox(ctx context.Context, s server, c content) (*database, error) {
	if s != b.postgres {
		d, err := b.empty(ctx, s)
		if err != nil {
			return nil, err
		}
		return d, b.put(ctx, d, c)
	}
	template := b.templates[c]
	if template == nil {
		if err := b.room(ctx, 2*(c.pending+c.kept+c.behind)); err != nil {
			return nil, err
		}
		var err error
		if template, err = b.empty(ctx, s); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := b.put(ctx, template, c); err != nil {
			return nil, err
		}
		b.log.InfoContext(ctx, "template is filled", slog.String("figure", b.figure), slog.Duration("took", time.Since(begin)))
		b.templates[c] = template
	}
	d := &database{server: s, name: newName()}
	b.later(d.drop)
	var err error
	if d.dsn, err = b.postgres.clone(ctx, template.name, d.name); err != nil {
		return nil, fmt.Errorf("copying a database: %w", err)
	}
	return d, nil
}

// forget drops the templates, between figures that have none in common.
func (b *bench) forget(ctx context.Context) error {
	for c, template := range b.templates {
		if err := bounded(ctx, template.drop); err != nil {
			return err
		}
		delete(b.templates, c)
	}
	return nil
}

// put fills an empty outbox.
func (b *bench) put(ctx context.Context, d *database, c content) error {
	if c.kept > 0 {
		if err := d.fill(ctx, events{aggregate: ordinary, topic: c.topic, n: c.kept, keys: c.keys, processed: true}); err != nil {
			return err
		}
		// As a relay leaves them that published all of these.
		err := d.pool(func(pool *sql.DB) error {
			_, err := pool.ExecContext(ctx, "UPDATE outbox_partitions p SET low = COALESCE((SELECT MAX(e.seq) FROM outbox_events e WHERE e.part = p.part), 0)")
			return err
		})
		if err != nil {
			return fmt.Errorf("moving the low marks: %w", err)
		}
	}
	if c.behind > 0 {
		if err := b.parkHead(ctx, d); err != nil {
			return err
		}
		if err := d.fill(ctx, events{aggregate: hot, topic: c.topic, n: c.behind, keys: 1}); err != nil {
			return err
		}
	}
	return d.fill(ctx, events{aggregate: ordinary, topic: c.topic, n: c.pending, keys: c.keys})
}

var errPoison = errors.New("this event is refused")

// parkHead leaves an aggregate whose first event nobody takes.
func (b *bench) parkHead(ctx context.Context, d *database) error {
	if err := d.fill(ctx, events{aggregate: hot, n: 1, keys: 1}); err != nil {
		return err
	}
	refuse := &nowhere{each: func(context.Context, []watermilladapter.Outgoing) error { return errPoison }}
	return d.use(func(db *gorm.DB) error {
		r, err := relay.New(db, refuse, relay.Config{
			Logger:   slog.New(slog.DiscardHandler), // the warning is what is wanted
			Classify: func(error) relay.Class { return relay.Permanent },
		})
		if err != nil {
			return err
		}
		if err := r.Drain(ctx); err != nil {
			return fmt.Errorf("parking an event: %w", err)
		}
		o, err := relay.NewOperator(db, "")
		if err != nil {
			return err
		}
		held, err := o.Held(ctx, 0, 2)
		if err != nil {
			return err
		}
		if len(held) != 1 || !held[0].Until.IsZero() {
			return fmt.Errorf("not one parked event but %d held", len(held))
		}
		return nil
	})
}
