package dedup

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Do runs fn in a transaction that records (consumer, id), unless it is recorded already: what Middleware does, for webhooks, jobs and clients of
// brokers without Watermill. fn gets its transaction by Tx(ctx), with the context that is passed to it. Events that it writes have id as their causation id.
//
// It returns whether fn was not run since the record was there. If fn returns an error, or panics, everything is rolled back and
// the error returned as it is. Other errors are those of Middleware. fn may be run again after an error of the commit.
//
// The end of ctx does not end a transaction in which fn has returned nil, see Config.CommitTimeout. For another table or other settings than the
// defaults there is the method of the same name. Config.Sequence is about messages and has no effect here.
func Do(ctx context.Context, db *gorm.DB, consumer, id string, fn func(ctx context.Context) error) (duplicate bool, err error) {
	if consumer == "" { // a Config would take it for the default
		return false, &KeyError{Part: partConsumer, Err: ErrNoConsumer}
	}
	d, err := New(db, Config{Consumer: consumer})
	if err != nil {
		return false, err
	}
	return d.Do(ctx, id, fn)
}

// Do is the function Do with the settings of d, whose consumer is Config.Consumer or else the name of the router's handler in ctx.
func (d *Deduplicator) Do(ctx context.Context, id string, fn func(ctx context.Context) error) (duplicate bool, err error) {
	outcome := &d.failed // of a panic too
	defer func() { outcome.Add(1) }()
	if fn == nil {
		return false, &ConfigError{Field: "fn", Cause: "it is nil", Cure: "pass the function that handles the message"}
	}
	k, err := d.keyFor(ctx, func() (string, error) { return id, nil })
	if err != nil {
		return false, err
	}
	duplicate, err = d.once(ctx, k, nil, func(_ *transaction, inside context.Context) error {
		return fn(gormoutbox.WithDefaultHeaders(inside, map[string]string{gormoutbox.HeaderCausationID: id}))
	})
	switch {
	case err != nil:
	case duplicate:
		outcome = &d.duplicates
	default:
		outcome = &d.committed
	}
	return duplicate, err
}

// keyOf finds the key of a message, or says why it has none.
func (d *Deduplicator) keyOf(msg *message.Message) (key, error) {
	return d.keyFor(msg.Context(), func() (string, error) { return d.config.MessageID(msg) })
}
