package dedup

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Deduplicator runs handlers in a transaction that records the message. It is
// safe for concurrent use, by any number of handlers and routers.
type Deduplicator struct {
	db      *gorm.DB
	config  Config
	dialect dialect.Dialect
	sql     statements
	begin   []*sql.TxOptions

	committed, duplicates, failed atomic.Uint64
	stale, late, gaps             atomic.Uint64
	// held is when messages behind a gap were first seen, by their keys.
	held sync.Map
	// repeated says that the last message was a duplicate.
	repeated atomic.Bool
	// early has told of a message that was acked too early.
	early sync.Once
}

// New returns a Deduplicator that begins its transactions on db. It does not
// use the database yet; Check says at start whether the table is there. The
// error joins a *ConfigError for each mistake.
func New(db *gorm.DB, config Config) (*Deduplicator, error) {
	config = config.withDefaults()
	d, err := config.validate(db)
	if err != nil {
		return nil, err
	}
	one := &Deduplicator{
		// NewDB: conditions and settings that db may carry are not for handlers.
		db:      db.Session(&gorm.Session{NewDB: true, Context: context.Background()}),
		config:  config,
		dialect: d,
		sql:     statementsFor(d, config.Table, config.Retention),
	}
	if config.Isolation != sql.LevelDefault {
		one.begin = []*sql.TxOptions{{Isolation: config.Isolation}}
	}
	return one, nil
}

// Stats counts deliveries since New. To metrics outside of the middleware a
// duplicate looks like a success.
type Stats struct {
	Committed  uint64 // handler and commit succeeded
	Duplicates uint64 // handled before, handler not run
	Failed     uint64 // an error was returned, or the handler panicked
	Stale      uint64 // skipped since they were late, see Sequence; late ones that are handled count as Committed

	// Late and Gaps count, of attempts that Sequence has looked at, those of late messages and those that went on over a gap.
	Late, Gaps uint64
}

// Stats returns the counts so far.
func (d *Deduplicator) Stats() Stats {
	return Stats{Committed: d.committed.Load(), Duplicates: d.duplicates.Load(), Failed: d.failed.Load(), Stale: d.stale.Load(), Late: d.late.Load(), Gaps: d.gaps.Load()}
}

// Middleware wraps a handler so that its effects through Tx are committed once
// for each message. It is a message.HandlerMiddleware:
//
//  1. A message that was handled before returns no message and no error, so it is acked.
//  2. An error of the handler rolls back and is returned as it is; with ErrDatabase around it if the connection was lost, or the transaction in a
//     deadlock of InnoDB. A statement that would end the transaction returns ErrEndsTransaction to the handler and is not run.
//  3. A panic of the handler rolls back and goes on.
//  4. Messages that the handler returns are written to the outbox, in the same transaction, and none are returned. If they
//     can't be, it is rolled back: *ProducedMessagesError, or the error of the outbox.
//  5. A message without a usable key returns a *KeyError before anything is begun.
//  6. If the commit fails its error is returned. Whether it took effect may
//     be unknown then, but the next delivery finds out.
//  7. The message has its old context again on return, in all cases.
//  8. If h is a middleware of Watermill that must not stand inside of this one, every message returns an *OrderError before anything is begun.
//  9. With Config.Sequence, a message may be recorded without its handler, since it is late, or return a *GapError or a *SequenceError.
//
// The handler must not commit or roll back the transaction itself.
func (d *Deduplicator) Middleware(h message.HandlerFunc) message.HandlerFunc {
	wrong := wrongInside(h)
	if d.config.AnyOrder {
		wrong = nil
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		outcome := &d.failed // of a panic too
		defer func() { outcome.Add(1) }()
		if wrong != nil {
			e := *wrong
			e.Handler = message.HandlerNameFromCtx(msg.Context())
			return nil, &e
		}

		counter, err := d.handle(msg, h)
		outcome = counter
		return nil, err
	}
}

var _ message.HandlerMiddleware = (*Deduplicator)(nil).Middleware
