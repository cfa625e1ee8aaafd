package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/IBM/sarama"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

// arrived is what a consumer gets of a record.
func arrived(t *testing.T, p *sarama.ProducerMessage) *sarama.ConsumerMessage {
	t.Helper()
	c := &sarama.ConsumerMessage{Topic: p.Topic}
	for _, h := range p.Headers {
		c.Headers = append(c.Headers, &sarama.RecordHeader{Key: h.Key, Value: h.Value})
	}
	var err error
	if p.Key != nil {
		c.Key, err = p.Key.Encode()
		require.NoError(t, err)
	}
	c.Value, err = p.Value.Encode()
	require.NoError(t, err)
	return c
}

func newMessage(payload []byte, metadata map[string]string) *message.Message {
	msg := message.NewMessage(uuid.Must(uuid.NewV7()).String(), payload)
	for name, value := range metadata {
		msg.Metadata.Set(name, value)
	}
	return msg
}

func TestKeyIsTheAggregateID(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{
		"uuid":      "01890a5d-ac96-774b-bcce-b302099a8057",
		"composite": `a|b\|c`,
		"unicode":   "grüße 😀",
		"bytes":     "\xff\x00\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, err := kafka.Marshaler{}.Marshal("orders", newMessage([]byte("x"), map[string]string{gormoutbox.HeaderAggregateID: id}))
			require.NoError(t, err)
			assert.Equal(t, "orders", record.Topic)
			assert.Equal(t, []byte(id), arrived(t, record).Key)
		})
	}
}

func TestNoAggregateNoKey(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]map[string]string{
		"no header":    {"own": "x"},
		"empty header": {gormoutbox.HeaderAggregateID: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, err := kafka.Marshaler{}.Marshal("t", newMessage([]byte("x"), metadata))
			require.NoError(t, err)
			assertNoKey(t, record)
		})
	}
}

// assertNoKey is stricter than assert.Nil: to sarama, an encoder of nothing is a key.
func assertNoKey(t *testing.T, record *sarama.ProducerMessage) {
	t.Helper()
	keyed := record.Key != nil
	assert.False(t, keyed, "%#v", record.Key)
}

func TestOwnKeys(t *testing.T) {
	t.Parallel()
	key := func(topic string, msg *message.Message) ([]byte, error) {
		switch string(msg.Payload) {
		case "none":
			return []byte{}, nil
		case "fail":
			return nil, errOwn
		}
		return []byte(topic + "/" + msg.Metadata.Get("tenant")), nil
	}
	m := kafka.Marshaler{Key: key}

	record, err := m.Marshal("t", newMessage([]byte("x"), map[string]string{"tenant": "7", gormoutbox.HeaderAggregateID: "ignored"}))
	require.NoError(t, err)
	assert.Equal(t, []byte("t/7"), arrived(t, record).Key)

	record, err = m.Marshal("t", newMessage([]byte("none"), nil))
	require.NoError(t, err)
	assertNoKey(t, record)

	_, err = m.Marshal("t", newMessage([]byte("fail"), nil))
	require.ErrorIs(t, err, errOwn)
}

var errOwn = errors.New("own error")

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	event := gormoutbox.Record{
		ID: uuid.Must(uuid.NewV7()), AggregateType: "order", AggregateID: "42", EventType: "order.created",
		Payload: []byte(`{"ID":42}`), CreatedAt: time.Now().UTC(), Headers: map[string]string{"own": "x\x00y", "empty": ""},
	}
	full, err := watermilladapter.ToMessage(event)
	require.NoError(t, err)

	for name, msg := range map[string]*message.Message{
		"event":         full,
		"binary":        newMessage([]byte{0, 1, 0xff, 0xfe}, map[string]string{"bytes\xff": "\x00\xff"}),
		"empty payload": newMessage([]byte{}, nil),
		"no payload":    newMessage(nil, nil),
		"no uuid":       message.NewMessage("", []byte("x")),
		"nil metadata":  {UUID: "1", Payload: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, err := kafka.Marshaler{}.Marshal("t", msg)
			require.NoError(t, err)
			got, err := kafka.Marshaler{}.Unmarshal(arrived(t, record))
			require.NoError(t, err)
			assertSame(t, msg, got)
		})
	}

	record, err := kafka.Marshaler{}.Marshal("orders", full)
	require.NoError(t, err)
	msg, err := kafka.Marshaler{}.Unmarshal(arrived(t, record))
	require.NoError(t, err)
	got, err := watermilladapter.FromMessage(msg)
	require.NoError(t, err)
	assert.Equal(t, event, got)
}

func assertSame(t *testing.T, want, got *message.Message) {
	t.Helper()
	assert.Equal(t, want.UUID, got.UUID)
	assert.Equal(t, want.Payload, got.Payload, "nil and empty differ: the former is a tombstone")
	require.NotNil(t, got.Metadata)
	if len(want.Metadata) > 0 {
		assert.Equal(t, want.Metadata, got.Metadata)
	} else {
		assert.Empty(t, got.Metadata)
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("id", []byte("payload"), "name", "value", "aggregate")
	f.Add("", []byte{}, "", "", "")
	f.Fuzz(func(t *testing.T, id string, payload []byte, name, value, aggregate string) {
		if name == wkafka.UUIDHeaderKey || name == gormoutbox.HeaderAggregateID {
			t.Skip()
		}
		msg := message.NewMessage(id, payload)
		msg.Metadata.Set(name, value)
		msg.Metadata.Set(gormoutbox.HeaderAggregateID, aggregate)
		record, err := kafka.Marshaler{}.Marshal("t", msg)
		require.NoError(t, err)
		in := arrived(t, record)
		assert.Equal(t, aggregate, string(in.Key))
		got, err := kafka.Marshaler{}.Unmarshal(in)
		require.NoError(t, err)
		assertSame(t, msg, got)
	})
}

func TestInteroperatesWithTheDefaultMarshaler(t *testing.T) {
	t.Parallel()
	msg := newMessage([]byte{0, 0xff}, map[string]string{gormoutbox.HeaderAggregateID: "7", "own": "x"})
	for name, pair := range map[string]struct {
		from wkafka.Marshaler
		to   wkafka.Unmarshaler
	}{
		"ours to theirs": {kafka.Marshaler{}, wkafka.DefaultMarshaler{}},
		"theirs to ours": {wkafka.DefaultMarshaler{}, kafka.Marshaler{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, err := pair.from.Marshal("t", msg)
			require.NoError(t, err)
			got, err := pair.to.Unmarshal(arrived(t, record))
			require.NoError(t, err)
			assertSame(t, msg, got)
		})
	}
}

func TestHeadersAreInAFixedOrder(t *testing.T) {
	t.Parallel()
	msg := newMessage([]byte("x"), map[string]string{"c": "3", "a": "1", "b": "2"})
	record, err := kafka.Marshaler{}.Marshal("t", msg)
	require.NoError(t, err)
	var names []string
	for _, h := range record.Headers {
		names = append(names, string(h.Key))
	}
	assert.Equal(t, []string{wkafka.UUIDHeaderKey, "a", "b", "c"}, names)
}

func TestForeignRecords(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]*sarama.ConsumerMessage{
		"no headers":  {Value: []byte("x")},
		"nil header":  {Value: []byte("x"), Headers: []*sarama.RecordHeader{nil}},
		"own headers": {Value: []byte("x"), Headers: []*sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")}, {Key: []byte("n")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			msg, err := kafka.Marshaler{}.Unmarshal(record)
			require.NoError(t, err)
			assert.Empty(t, msg.UUID)
			assert.Equal(t, []byte("x"), []byte(msg.Payload))
			require.NotNil(t, msg.Metadata)
			if name == "own headers" {
				assert.Equal(t, message.Metadata{"a": "2", "n": ""}, msg.Metadata)
			}
			msg.Metadata.Set("may be", "set")
			assert.True(t, msg.Ack(), "it can be acked")
		})
	}
}

func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	_, err := kafka.Marshaler{}.Marshal("t", nil)
	requireField(t, err, "message")
	_, err = kafka.Marshaler{}.Unmarshal(nil)
	requireField(t, err, "record")
	for _, value := range []string{"x", ""} {
		_, err = kafka.Marshaler{}.Marshal("t", newMessage([]byte("x"), map[string]string{wkafka.UUIDHeaderKey: value}))
		requireField(t, err, wkafka.UUIDHeaderKey)
	}
}

func requireField(t *testing.T, err error, field string) {
	t.Helper()
	var e *watermilladapter.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, field, e.Field)
	assert.NotEmpty(t, e.Cause)
	assert.NotEmpty(t, e.Cure)
}
