package chain

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// Metadata of a poison message that could not be published as it was.
const (
	// PoisonedUUID has the message's own UUID; it has a new one.
	PoisonedUUID = "poisoned_uuid"
	// poisonedPrefix is before the names of metadata that say what is to be done with a message.
	poisonedPrefix = "poisoned_"
)

// orders are the metadata by which an outbox decides about a message, and refuses it if they make no sense.
var orders = map[string]bool{
	gormoutbox.HeaderName: true, gormoutbox.HeaderEventType: true, gormoutbox.HeaderEventVersion: true,
	gormoutbox.HeaderAggregateType: true, gormoutbox.HeaderAggregateID: true, "_watermill_delayed_until": true,
}

// taking is a publisher of poison messages that takes what an outbox refuses: it is often the reason for which a message is poison, and the
// message would come again for ever.
type taking struct{ message.Publisher }

// Publish implements message.Publisher.
func (p taking) Publish(topic string, messages ...*message.Message) error {
	err := p.Publisher.Publish(topic, messages...)
	if !refused(err) {
		return err
	}
	fit := make([]*message.Message, len(messages))
	for i, msg := range messages {
		fit[i] = fitted(msg)
	}
	return p.Publisher.Publish(topic, fit...)
}

// refused says whether an error is about a message that can't be an event.
func refused(err error) bool {
	if _, ok := errors.AsType[*watermilladapter.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[*gormoutbox.EventError](err)
	return ok
}

// fitted is a message with the same payload that any outbox takes, and which still says all that the first one did.
func fitted(msg *message.Message) *message.Message {
	fit := message.NewMessageWithContext(msg.Context(), watermill.NewUUID(), msg.Payload)
	for name, value := range msg.Metadata {
		if orders[name] {
			name = poisonedPrefix + name
		}
		fit.Metadata.Set(text(name), text(value))
	}
	fit.Metadata.Set(PoisonedUUID, text(msg.UUID))
	return fit
}

// text is what is no text as a quoted string of Go.
func text(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return strconv.QuoteToASCII(value)
}
