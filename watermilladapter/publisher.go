package watermilladapter

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

var (
	// ErrNoTransaction is returned by Publisher.Publish for a message whose context has no transaction, or a *gorm.DB that is none.
	ErrNoTransaction = errors.New("watermilladapter: the message's context has no transaction: publish with a context of gormoutbox.WithTx, " +
		"or in a handler under the middleware of package dedup with the context of its message; or set PublisherConfig.OwnTransaction")
	// ErrOtherDatabase is returned by Publisher.Publish if the transaction in the message's context is not one of the publisher's database.
	ErrOtherDatabase = errors.New("watermilladapter: the transaction in the message's context is of another *gorm.DB than the publisher's: " +
		"make a publisher for each database, or publish with gormoutbox.WithTx and a transaction of this one")
)

// PublisherConfig configures a Publisher. The zero value is ready to use.
type PublisherConfig struct {
	// Aggregate says whose event a message is. Defaults to AggregateFromMetadata.
	Aggregate AggregateFunc
	// OwnTransaction makes Publish write messages whose context has no transaction in one of its own, all those of a
	// call together. It is for code that has nothing else to write. Defaults to false: such messages are refused with ErrNoTransaction, since what was to
	// be atomic with them is not.
	OwnTransaction bool
}

// Publisher is a message.Publisher that writes to the outbox, in the transaction that gormoutbox.WithTx has put into the message's
// context, or the middleware of package dedup. So what publishes through it, such as Watermill's EventBus and CommandBus, commits
// together with what else is written there, and the relay publishes it after the commit.
//
// It is safe for concurrent use and may live as long as the process.
type Publisher struct {
	db     *gorm.DB
	outbox *gormoutbox.Plugin
	config PublisherConfig
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a Publisher for the outbox of db, on which the plugin must be registered.
func NewPublisher(db *gorm.DB, config PublisherConfig) (*Publisher, error) {
	outbox, err := gormoutbox.On(db)
	if err != nil {
		return nil, err
	}
	return &Publisher{db: db.Session(&gorm.Session{NewDB: true, Context: context.Background()}), outbox: outbox, config: config}, nil
}

// Publish writes the messages to the outbox, in their order. See ToEvent for what becomes of a message.
//
// If one of them can't be written, none is, and the transaction is rolled back, so that an ignored error can't commit the rest.
// Errors are ErrNoTransaction and ErrOtherDatabase, before anything is written, *Error and those of gormoutbox.Append.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	var tx *gorm.DB
	events := make([]gormoutbox.Event, len(messages))
	for i, msg := range messages {
		event, err := ToEvent(topic, msg, p.config.Aggregate)
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, len(messages), err)
		}
		found, err := p.transaction(msg)
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, len(messages), err)
		}
		if tx != nil && tx.Statement.ConnPool != found.Statement.ConnPool {
			return fmt.Errorf("message %d of %d: %w", i+1, len(messages), errTwoTransactions)
		}
		if tx == nil {
			tx = found
		}
		events[i] = event
	}
	return p.outbox.Append(tx, events...)
}

var errTwoTransactions = &Error{
	Field: "context", Cause: "it has another transaction than that of the first message, so they can't be written together", Cure: "publish them by calls of their own",
}

// transaction is where the message is to be written.
func (p *Publisher) transaction(msg *message.Message) (*gorm.DB, error) {
	ctx := msg.Context()
	tx := gormoutbox.TxFrom(ctx)
	switch {
	case tx == nil && p.config.OwnTransaction:
		return p.db.WithContext(ctx), nil
	case tx == nil:
		return nil, ErrNoTransaction
	case tx.Error == nil && tx.Callback() != p.db.Callback():
		return nil, ErrOtherDatabase
	}
	return tx, nil
}

// Close does nothing: a publisher has nothing of its own, and may be shared by handlers whose routers close it.
func (p *Publisher) Close() error { return nil }
