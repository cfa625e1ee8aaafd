package dedup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// handle runs the handler unless the message is a duplicate.
func (d *Deduplicator) handle(msg *message.Message, h message.HandlerFunc) (duplicate bool, err error) {
	ctx := msg.Context()
	k, err := d.keyOf(msg)
	if err != nil {
		return false, err
	}
	if handling(ctx, msg, k) {
		return false, ErrNested
	}

	tx, err := d.beginTx(ctx, k)
	if err != nil {
		return false, err
	}
	defer tx.end(ctx) // rolls back what is not committed, after a panic too

	fresh, err := d.record(ctx, tx.raw(), k)
	if err != nil {
		tx.end(ctx) // the pool may have one connection
		return false, d.explain(ctx, err)
	}
	if !fresh {
		d.config.Logger.DebugContext(ctx, "duplicate message skipped",
			slog.String("consumer", k.consumer), slog.String("message_id", k.id))
		return true, nil
	}

	produced, err := d.run(ctx, tx, k, msg, h)
	if err != nil {
		return false, err
	}
	if len(produced) > 0 {
		return false, &ProducedMessagesError{
			Consumer: k.consumer, Topic: message.PublishTopicFromCtx(ctx), Count: len(produced),
		}
	}
	return false, tx.commit()
}

// explainTimeout bounds the look at the table after a record could not be written.
const explainTimeout = 5 * time.Second

// explain adds to the error of a record what is wrong with the table, if it is not what it should be.
func (d *Deduplicator) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	if schema, ok := errors.AsType[*SchemaError](CheckTable(ctx, d.db, d.config.Table)); ok {
		return fmt.Errorf("%w: %w", schema, err)
	}
	return err
}

// run calls the handler with the transaction in the message's context.
func (d *Deduplicator) run(ctx context.Context, tx *transaction, k key, msg *message.Message, h message.HandlerFunc) ([]*message.Message, error) {
	s := &session{db: tx.db, msg: msg, key: k}
	defer s.ended.Store(true)
	msg.SetContext(context.WithValue(ctx, sessionKey{}, s))
	// Retry and PoisonQueue outside would otherwise see a finished transaction,
	// or the dead context that a Timeout inside leaves behind.
	defer msg.SetContext(ctx)
	return h(msg)
}
