package dedup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The values of KeyError.Part.
const (
	partConsumer  = "consumer"
	partMessageID = "message id"
	partStream    = "stream"
)

// key is what the primary key of the table holds.
type key struct{ consumer, id string }

func (k key) String() string { return fmt.Sprintf("message %q of consumer %q", k.id, k.consumer) }

// keyFor finds a key, or says why there is none.
func (d *Deduplicator) keyFor(ctx context.Context, messageID func() (string, error)) (key, error) {
	k := key{consumer: d.config.Consumer}
	if k.consumer == "" {
		k.consumer = message.HandlerNameFromCtx(ctx)
		k.consumer = cmp.Or(d.config.Renamed[k.consumer], k.consumer)
	}
	if k.consumer == "" {
		return k, &KeyError{Part: partConsumer, Err: ErrNoConsumer}
	}
	if err := checkKey(partConsumer, k.consumer); err != nil {
		return k, err
	}
	id, err := messageID()
	if err != nil {
		return k, fmt.Errorf("dedup: finding the message id: %w", err)
	}
	if id == "" {
		return k, &KeyError{Part: partMessageID, Err: ErrNoMessageID}
	}
	k.id = id
	return k, checkKey(partMessageID, id)
}

// checkKey refuses what a database would cut, change or reject: INSERT IGNORE
// cuts what is too long, and two ids that begin alike would be one.
func checkKey(part, value string) error {
	switch {
	case len(value) > MaxKeyLength:
		return &KeyError{Part: part, Value: value, Err: ErrKeyTooLong}
	case strings.IndexByte(value, 0) >= 0 || !utf8.ValidString(value):
		return &KeyError{Part: part, Value: value, Err: ErrKeyText}
	}
	return nil
}
