package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
)

// backlogEvents and backlogKeys are the ordinary backlog.
const (
	backlogEvents = 100_000
	backlogKeys   = 1000
)

// ordinaryBacklog is what most figures begin with.
func (b *bench) ordinaryBacklog() content {
	return content{pending: b.size(backlogEvents), keys: backlogKeys}
}

// drain publishes the backlog of a database.
func (b *bench) drain(ctx context.Context, d *database, publisher message.Publisher, config relay.Config) (begin time.Time, took time.Duration, err error) {
	config.Logger = b.log
	err = d.use(func(db *gorm.DB) error {
		r, err := relay.New(db, publisher, config)
		if err != nil {
			return err
		}
		begin = time.Now()
		err = r.Drain(ctx)
		took = time.Since(begin)
		return err
	})
	return begin, took, err
}

// untilLast is the rate until the last page was given to the publisher: without settling it, and without what Drain does to
// know that it was the last.
const untilLast = "until the last page/s"

// drained is a variant that publishes a backlog to nowhere.
func (b *bench) drained(name string, s server, c content, config relay.Config) variant {
	return variant{name: name, run: func(ctx context.Context) (sample, error) {
		d, err := b.outbox(ctx, s, c)
		if err != nil {
			return nil, err
		}
		pub := &nowhere{}
		begin, took, err := b.drain(ctx, d, pub, config)
		if err == nil {
			err = pub.all(c.pending)
		}
		if err != nil {
			return nil, err
		}
		s := rate(c.pending, took)
		s[untilLast] = rate(c.pending, pub.lastBatch().Sub(begin))[perSecond]
		return s, bounded(ctx, d.drop)
	}}
}

// drains compares the relay with reading the same rows and doing nothing, which no relay can be faster than.
func (b *bench) drains(ctx context.Context) error {
	for _, s := range []server{b.postgres, b.mariadb, sqlite{}} {
		c := b.ordinaryBacklog()
		m, err := b.turns(ctx,
			variant{name: "read only", run: func(ctx context.Context) (sample, error) { return b.readOnly(ctx, s, c) }},
			b.drained("keep", s, c, relay.Config{}),
			b.drained("delete", s, c, relay.Config{DeleteOnPublish: true}),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", s.kind(), err)
		}
		b.compare(s.kind(), m, "read only", "keep", "delete")
	}
	return b.forget(ctx)
}

// readOnly is the limit: pages as large as the relay's, in the order of an index, by one prepared statement.
func (b *bench) readOnly(ctx context.Context, s server, c content) (result sample, err error) {
	d, err := b.outbox(ctx, s, c)
	if err != nil {
		return nil, err
	}
	query := "SELECT part, seq, id, aggregate_type, aggregate_id, event_type, topic, payload, headers FROM outbox_events WHERE "
	if s == b.postgres {
		query += "(part, seq) > ($1, $2) ORDER BY part, seq LIMIT 500"
	} else {
		query += "seq > ? ORDER BY seq LIMIT 500"
	}
	err = d.pool(func(pool *sql.DB) error {
		statement, err := pool.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer statement.Close()
		begin := time.Now()
		n, part, seq := 0, -1, int64(0)
		for {
			args := []any{seq}
			if s == b.postgres {
				args = []any{part, seq}
			}
			page, err := readPage(ctx, statement, args, &part, &seq)
			if err != nil {
				return err
			}
			if page == 0 {
				break
			}
			n += page
		}
		result = rate(n, time.Since(begin))
		if n != c.pending {
			return fmt.Errorf("%d rows were read and not %d", n, c.pending)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, bounded(ctx, d.drop)
}

func readPage(ctx context.Context, statement *sql.Stmt, args []any, part *int, seq *int64) (n int, err error) {
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, aggregateType, aggregateID, eventType, topic, headers string
		var body []byte
		if err := rows.Scan(part, seq, &id, &aggregateType, &aggregateID, &eventType, &topic, &body, &headers); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}
