package kafka

import (
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// KeyFunc returns the key of a message, or nothing for a message without a
// key, which may go to any partition. It must be safe for concurrent use.
type KeyFunc func(topic string, msg *message.Message) ([]byte, error)

// Marshaler turns Watermill messages into Kafka records and back. The zero value
// is ready to use, with watermill-kafka's publisher and subscriber.
//
//   - The key is the aggregate id, byte for byte; a message without an aggregate has no key.
//   - Each metadata entry is a record header, and so is the UUID, under
//     watermill-kafka's UUIDHeaderKey.
//   - The value is the payload, byte for byte. A nil payload is a record without
//     a value, which deletes its key from a compacted topic.
type Marshaler struct {
	// Key makes the keys. Aggregates of two types that share a topic and may
	// have the same ids share keys too, which matters only if the topic is compacted.
	// Defaults to the header gormoutbox.HeaderAggregateID.
	Key KeyFunc
}

var _ wkafka.MarshalerUnmarshaler = Marshaler{}

// Marshal implements watermill-kafka's Marshaler. It returns a
// *watermilladapter.Error for a message whose metadata has an entry named like the
// header of the UUID.
func (m Marshaler) Marshal(topic string, msg *message.Message) (*sarama.ProducerMessage, error) {
	if msg == nil {
		return nil, &watermilladapter.Error{Field: "message", Cause: "it is nil", Cure: "pass a message"}
	}
	if _, taken := msg.Metadata[wkafka.UUIDHeaderKey]; taken {
		return nil, &watermilladapter.Error{
			Field: wkafka.UUIDHeaderKey, Cause: "the metadata has an entry of this name, which belongs to the message's UUID", Cure: "rename it",
		}
	}
	key, err := m.key(topic, msg)
	if err != nil {
		return nil, fmt.Errorf("watermilladapter/kafka: making the key of message %s: %w", msg.UUID, err)
	}
	record := &sarama.ProducerMessage{
		Topic:   topic,
		Value:   sarama.ByteEncoder(msg.Payload),
		Headers: make([]sarama.RecordHeader, 0, len(msg.Metadata)+1),
	}
	// An interface that holds an empty key would count as one key for all.
	if len(key) > 0 {
		record.Key = sarama.ByteEncoder(key)
	}
	record.Headers = append(record.Headers, sarama.RecordHeader{Key: []byte(wkafka.UUIDHeaderKey), Value: []byte(msg.UUID)})
	// Sorted, so that a message looks the same in each attempt.
	for _, name := range slices.Sorted(maps.Keys(msg.Metadata)) {
		record.Headers = append(record.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(msg.Metadata[name])})
	}
	return record, nil
}

func (m Marshaler) key(topic string, msg *message.Message) ([]byte, error) {
	if m.Key != nil {
		return m.Key(topic, msg)
	}
	return []byte(msg.Metadata.Get(gormoutbox.HeaderAggregateID)), nil
}

// Unmarshal implements watermill-kafka's Unmarshaler. A record of another producer
// may lack the header of the UUID; the UUID is empty then. If a header occurs
// more than once the last one counts. The metadata is never nil.
func (Marshaler) Unmarshal(record *sarama.ConsumerMessage) (*message.Message, error) {
	if record == nil {
		return nil, &watermilladapter.Error{Field: "record", Cause: "it is nil", Cure: "pass a record"}
	}
	msg := message.NewMessage("", record.Value)
	for _, header := range record.Headers {
		switch {
		case header == nil:
		case string(header.Key) == wkafka.UUIDHeaderKey:
			msg.UUID = string(header.Value)
		default:
			msg.Metadata.Set(string(header.Key), string(header.Value))
		}
	}
	return msg, nil
}
