package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/lifecycle"
	"github.com/gormoutbox/outbox/internal/pause"
)

const (
	// purgeEvery is the pause between two rounds of Run.
	purgeEvery = time.Hour
	// purgeAgain is the pause after a round in which another process was removing records: it may have a longer retention.
	purgeAgain = 3 * time.Second
	// purgeRows is how many records one statement removes at most.
	purgeRows = 1000
)

// purgeForms remove some of the records that are older than the retention, the oldest first.
var purgeForms = map[string]string{
	"postgres": `DELETE FROM {table} WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM {table} WHERE processed_at < {old} ORDER BY processed_at LIMIT {n})`,
	"sqlite":   `DELETE FROM {table} WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM {table} WHERE processed_at < {old} ORDER BY processed_at LIMIT {n})`,
	"mysql":    `DELETE FROM {table} WHERE processed_at < {old} ORDER BY processed_at LIMIT {n}`,
}

// Purge removes the records that are older than Config.Retention, of all consumers, by the database's clock, and returns how
// many. It does so in small transactions, of a thousand records each. One process at a time removes: another one finds nothing to do and
// returns.
//
// A message that comes again after its record was removed is handled again. What the handler returned then has the ids
// that it had before, see OutputID.
func (d *Deduplicator) Purge(ctx context.Context) (removed int64, err error) {
	removed, _, err = d.purge(ctx)
	return removed, err
}

// purge is Purge, and tells whether it was alone.
func (d *Deduplicator) purge(ctx context.Context) (removed int64, alone bool, err error) {
	if d.config.Retention == KeepForever {
		return 0, true, nil
	}
	for {
		n, alone, err := d.purgeSome(ctx)
		removed += n
		if err != nil {
			return removed, alone, fmt.Errorf("dedup: removing old records: %w", err)
		}
		if !alone || n < purgeRows {
			return removed, alone, nil
		}
	}
}

// purgeSome removes one batch, unless another process does.
func (d *Deduplicator) purgeSome(ctx context.Context) (n int64, alone bool, err error) {
	// READ COMMITTED: at the default isolation of MySQL the gaps between the records would be locked.
	level := sql.LevelReadCommitted
	if d.dialect.Name() == "sqlite" {
		level = sql.LevelDefault
	}
	err = d.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		pool := tx.Statement.ConnPool
		if d.dialect.Name() != "sqlite" { // which has one writer anyway, and whose transactions must not begin with a read
			if alone, err = exists(ctx, pool, d.sql.alone); err != nil || !alone {
				return err
			}
		}
		alone = true
		result, err := pool.ExecContext(ctx, d.sql.purge)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	}, &sql.TxOptions{Isolation: level})
	if err != nil {
		n = 0
	}
	return n, alone, err
}

// Run calls Purge at once and then every hour, until ctx ends, and returns nil then. Errors are logged, and it goes on. Any number of processes may
// run it, with retentions of their own: if another one was at it, Run asks again after some seconds.
func (d *Deduplicator) Run(ctx context.Context) error {
	for {
		wait := purgeEvery
		n, alone, err := d.purge(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it has ended as it was told to
		case err != nil:
			d.config.Logger.ErrorContext(ctx, "old records could not be removed; it is tried again later", slog.Any("error", err))
		case !alone:
			d.config.Logger.DebugContext(ctx, "another process is removing old records; it is tried again soon", slog.Int64("records", n))
			wait = purgeAgain
		case n > 0:
			d.config.Logger.DebugContext(ctx, "old records removed", slog.Int64("records", n))
		}
		if !pause.Sleep(ctx, pause.Spread(wait)) {
			return nil
		}
	}
}

// RouterPlugin ties Run to a Watermill router: router.AddPlugin(d.RouterPlugin). At its start the router also checks the table and the order of its
// middlewares (CheckOrder), whose errors its Run returns. It shows as a consumer
// handler named "gormoutbox_dedup_<table>", with a number behind it if there is one already, which never gets a message.
func (d *Deduplicator) RouterPlugin(router *message.Router) error {
	if router == nil {
		return &ConfigError{Field: "router", Cause: "it is nil", Cure: "pass a Watermill router"}
	}
	if !d.config.AnyOrder {
		if err := CheckOrder(router); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainTimeout)
	defer cancel()
	// A database that is away does not keep the router from starting.
	if schema, ok := errors.AsType[*SchemaError](CheckTable(ctx, d.db, d.config.Table)); ok {
		return schema
	}
	run := lifecycle.New(func(ctx context.Context) { _ = d.Run(ctx) }) // which never fails
	name := "gormoutbox_dedup_" + d.config.Table
	for n := 2; ; n++ {
		if _, taken := router.Handlers()[name]; !taken {
			break
		}
		name = fmt.Sprintf("gormoutbox_dedup_%s_%d", d.config.Table, n)
	}
	// The middleware does not see its messages, since there are none.
	router.AddConsumerHandler(name, d.config.Table, run, func(*message.Message) error { return nil })
	return nil
}
