package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// traveling are the headers that go on from a message to the events that come of it.
var traveling = []string{gormoutbox.HeaderCorrelationID, gormoutbox.HeaderTraceParent, gormoutbox.HeaderTraceState}

// carriedOn are the headers that the events of a handler have by default.
func carriedOn(msg *message.Message, k key) map[string]string {
	headers := map[string]string{gormoutbox.HeaderCausationID: k.id}
	for _, name := range traveling {
		if value := msg.Metadata.Get(name); value != "" && utf8.ValidString(value) {
			headers[name] = value
		}
	}
	return headers
}

// outputs is the namespace of the ids of what handlers return, a UUIDv5 of the module's name among those of URLs.
var outputs = uuid.NewSHA1(uuid.NameSpaceURL, []byte("github.com/gormoutbox/outbox/dedup"))

// OutputID is the id of the event that is made of the message that a consumer's handler returned at a place, beginning with 0, for the
// message with this id. It is the same each time, so that those who consume it know it again, if the
// handler runs once more after its record was removed. It is a UUIDv5.
//
// So a consumer's name must be its own among all whose outputs meet in a topic, in other services too. Of a Deduplicator with another Config.Table than the
// default the consumer is "table/consumer" here.
func OutputID(consumer, messageID string, place int) uuid.UUID {
	name := make([]byte, 0, len(consumer)+len(messageID)+16)
	name = binary.AppendUvarint(name, uint64(len(consumer)))
	name = append(name, consumer...)
	name = binary.AppendUvarint(name, uint64(len(messageID)))
	name = append(name, messageID...)
	name = binary.AppendUvarint(name, uint64(place)) //nolint:gosec // an index
	return uuid.NewSHA1(outputs, name)
}

// output writes the messages that a handler returned to the outbox, in the transaction of the message.
func (d *Deduplicator) output(tx *transaction, msg *message.Message, k key, produced []*message.Message) error {
	ctx := msg.Context()
	topic := message.PublishTopicFromCtx(ctx)
	refuse := func(cause, cure string) error {
		return &ProducedMessagesError{Consumer: k.consumer, Topic: topic, Count: len(produced), Cause: cause, Cure: cure}
	}
	outbox := d.config.Outbox
	if outbox == nil {
		var err error
		if outbox, err = gormoutbox.On(d.db); err != nil {
			return refuse(err.Error(), "register the plugin on the *gorm.DB of dedup.New, or set Config.Outbox")
		}
	}
	if topic == "" {
		return refuse("the handler has no publish topic", "use Router.AddHandler with a publish topic, or publish by watermilladapter.Publisher in the handler and return none")
	}
	consumer := k.consumer
	if d.config.Table != DefaultTable { // the same consumer may have handled the message there, and this is another handling
		consumer = d.config.Table + "/" + consumer
	}
	events := make([]gormoutbox.Event, len(produced))
	for i, out := range produced {
		event, err := watermilladapter.ToEvent(topic, out, d.config.Aggregate)
		if err != nil {
			return fmt.Errorf("dedup: message %d of %d that the handler of %v returned: %w", i+1, len(produced), k, err)
		}
		event.ID, event.Once = OutputID(consumer, k.id, i), true
		// A message that is sent on has the cause of the one that was handled; what caused this event is that one.
		if cause := event.Headers[gormoutbox.HeaderCausationID]; cause != "" && cause == msg.Metadata.Get(gormoutbox.HeaderCausationID) {
			delete(event.Headers, gormoutbox.HeaderCausationID)
		}
		events[i] = event
	}
	// A router that closes has ended the message's context, and the handler has done its work all the same.
	session := tx.db.Session(&gorm.Session{NewDB: true, Context: tx.lasting(ctx)})
	if err := outbox.Append(session, events...); err != nil {
		if errors.Is(err, gormoutbox.ErrNotRegistered) {
			return refuse(err.Error(), "take a plugin that is registered on the *gorm.DB of dedup.New")
		}
		return tx.explain(fmt.Errorf("dedup: writing %d messages that the handler of %v returned: %w", len(produced), k, err))
	}
	return nil
}
