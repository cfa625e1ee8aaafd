package formats_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/examples/formats"
	"github.com/gormoutbox/outbox/examples/formats/orderpb"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

const (
	card = "4111 1111 1111 1111"
	note = "rang twice"
)

func marshallers() map[string]gormoutbox.MarshalFunc {
	return map[string]gormoutbox.MarshalFunc{"protobuf": formats.Protobuf, "cloudevents": formats.CloudEvents("/shop")}
}

// eventTypes are those of the outbox.
func (s *shop) eventTypes(t *testing.T) (out []string) {
	t.Helper()
	require.NoError(t, s.Raw("SELECT event_type FROM outbox_events ORDER BY seq").Scan(&out).Error)
	return out
}

// TestIrrelevantChangesAreNoEvents: only what consumers can see is told to them.
func TestIrrelevantChangesAreNoEvents(t *testing.T) {
	t.Parallel()
	for name, fn := range marshallers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testShop(t, gormoutbox.Config{Marshal: fn})
			order := formats.Order{ID: uuid.New(), Status: "placed", Cents: 995}
			require.NoError(t, s.Create(&order).Error)
			want := []string{"order.created"}
			for _, update := range []struct {
				values formats.Order
				events []string
			}{
				{formats.Order{Note: note}, nil},
				{formats.Order{Card: card}, nil},
				{formats.Order{Card: card + "2", Note: note + "2"}, nil},
				{formats.Order{Status: "placed", Note: note + "3"}, nil}, // assigned, and the same as before
				{formats.Order{Status: "paid", Note: note + "4"}, []string{"order.updated"}},
				{formats.Order{Cents: 1}, []string{"order.updated"}},
			} {
				require.NoError(t, s.Model(&order).Updates(update.values).Error)
				want = append(want, update.events...)
				assert.Equal(t, want, s.eventTypes(t), "%+v", update.values)
			}
			order.Note = note + "5"
			require.NoError(t, s.Save(&order).Error) // assigns all columns
			assert.Equal(t, want, s.eventTypes(t))
			require.NoError(t, s.Delete(&order).Error)
			assert.Equal(t, append(want, "order.deleted"), s.eventTypes(t))

			var row formats.Order
			require.ErrorIs(t, s.First(&row, "id = ?", order.ID).Error, gorm.ErrRecordNotFound)
			for range len(want) + 1 {
				s.next()
			}
		})
	}
}

// TestPrivateFieldsStayInTheDatabase looks for them in all that is published.
func TestPrivateFieldsStayInTheDatabase(t *testing.T) {
	t.Parallel()
	for name, fn := range marshallers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testShop(t, gormoutbox.Config{Marshal: fn})
			order := formats.Order{ID: uuid.New(), Status: "placed", Card: card, Note: note}
			require.NoError(t, s.Create(&order).Error)
			require.NoError(t, s.Model(&order).Updates(formats.Order{Status: "paid", Card: card + "2"}).Error)
			require.NoError(t, s.Delete(&order).Error)
			for range 3 {
				msg := s.next()
				all := fmt.Sprintf("%s %v", msg.Payload, msg.Metadata)
				assert.NotContains(t, all, card)
				assert.NotContains(t, all, note)
			}
		})
	}
}

func TestProtobuf(t *testing.T) {
	t.Parallel()
	s := testShop(t, gormoutbox.Config{Models: []any{gormoutbox.Annotate(&formats.Order{}, "").Marshal(formats.Protobuf)}})
	order := formats.Order{ID: uuid.New(), Status: "placed", Cents: 995}
	require.NoError(t, s.Create(&order).Error)
	require.NoError(t, s.Model(&order).Update("status", "paid").Error)
	require.NoError(t, s.Delete(&order).Error)
	for _, want := range []struct {
		kind   string
		status orderpb.Status
	}{
		{"order.created", orderpb.Status_STATUS_PLACED}, {"order.updated", orderpb.Status_STATUS_PAID}, {"order.deleted", orderpb.Status_STATUS_PAID},
	} {
		msg := s.next()
		assert.Equal(t, want.kind, msg.Metadata.Get(gormoutbox.HeaderEventType))
		payload, err := formats.ReadProtobuf(msg)
		require.NoError(t, err)
		assert.True(t, proto.Equal(&orderpb.Order{Id: order.ID.String(), Status: want.status, Cents: 995}, payload), "%v", payload)
	}
}

// TestStatusOutsideOfTheContract fails the save, and with it nothing is written.
func TestStatusOutsideOfTheContract(t *testing.T) {
	t.Parallel()
	s := testShop(t, gormoutbox.Config{Marshal: formats.Protobuf})
	require.ErrorContains(t, s.Create(&formats.Order{ID: uuid.New(), Status: "lost"}).Error, `no status "lost"`)
	var orders int64
	require.NoError(t, s.Model(&formats.Order{}).Count(&orders).Error)
	assert.Zero(t, orders)
	assert.Empty(t, s.eventTypes(t))
}

func TestReadProtobufRefuses(t *testing.T) {
	t.Parallel()
	good := map[string]string{"content-type": "application/protobuf", gormoutbox.HeaderEventType: "order.created"}
	for name, test := range map[string]struct {
		header, value string
		payload       string
		want          string
	}{
		"content type": {"content-type", "application/json", "", "content type"},
		"event type":   {gormoutbox.HeaderEventType, "order.lost", "", "unknown event type"},
		"payload":      {"x", "y", "{}", "proto"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			msg := message.NewMessage("id", []byte(test.payload))
			for name, value := range good {
				msg.Metadata.Set(name, value)
			}
			msg.Metadata.Set(test.header, test.value)
			payload, err := formats.ReadProtobuf(msg)
			require.ErrorContains(t, err, test.want)
			assert.Nil(t, payload)
		})
	}
}

// overKafka is what a consumer gets of a message: the record that the publisher writes, read again.
func overKafka(t *testing.T, msg *message.Message) (*message.Message, map[string]string) {
	t.Helper()
	sent, err := kafka.Marshaler{}.Marshal("orders", msg)
	require.NoError(t, err)
	value, err := sent.Value.Encode()
	require.NoError(t, err)
	received := &sarama.ConsumerMessage{Value: value}
	headers := map[string]string{}
	for _, h := range sent.Headers {
		received.Headers = append(received.Headers, &h)
		headers[string(h.Key)] = string(h.Value)
	}
	got, err := kafka.Marshaler{}.Unmarshal(received)
	require.NoError(t, err)
	return got, headers
}

// TestCloudEvents reads the records with the SDK of CloudEvents.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	s := testShop(t, gormoutbox.Config{Marshal: formats.CloudEvents("https://shop.example/orders")})
	order := formats.Order{ID: uuid.New(), Status: "placed", Cents: 995, Card: card}
	require.NoError(t, s.Create(&order).Error)
	require.NoError(t, s.Model(&order).Update("status", "paid").Error)
	require.NoError(t, s.Delete(&order).Error)
	for _, want := range []struct{ kind, status string }{{"order.created", "placed"}, {"order.updated", "paid"}, {"order.deleted", "paid"}} {
		msg := s.next()
		received, headers := overKafka(t, msg)
		for name, value := range map[string]string{
			"ce_specversion": "1.0", "ce_id": msg.UUID, "ce_type": want.kind, "ce_source": "https://shop.example/orders",
			"ce_subject": order.ID.String(), "content-type": "application/json",
		} {
			assert.Equal(t, value, headers[name], name)
		}

		e, err := formats.ReadCloudEvent(received)
		require.NoError(t, err)
		assert.Equal(t, "1.0", e.SpecVersion())
		assert.Equal(t, msg.UUID, e.ID(), "the event's id")
		assert.Equal(t, msg.Metadata.Get(gormoutbox.HeaderEventType), e.Type())
		assert.Equal(t, msg.Metadata.Get(gormoutbox.HeaderAggregateID), e.Subject())
		assert.Equal(t, "https://shop.example/orders", e.Source())
		assert.Empty(t, e.Extensions(), "other headers are no attributes")
		assert.Equal(t, []byte(msg.Payload), e.Data())
		var data formats.OrderData
		require.NoError(t, e.DataAs(&data))
		assert.Equal(t, formats.OrderData{ID: order.ID, Status: want.status, Cents: 995}, data)
	}
}

// TestDomainEventsAsCloudEvents: their id is known before the row is written, which they repeat in a header.
func TestDomainEventsAsCloudEvents(t *testing.T) {
	t.Parallel()
	s := testShop(t, gormoutbox.Config{Marshal: formats.CloudEvents("/shop")})
	id := uuid.Must(uuid.NewV7())
	own := map[string]string{"tenant": "7"}
	for _, event := range []gormoutbox.Event{
		{ID: id, AggregateType: "order", AggregateID: "7", Type: "order.shipped", Payload: map[string]string{"carrier": "post"}, Headers: own},
		{Type: "shop.opened", Payload: json.RawMessage(`{"carrier":"post"}`)},
	} {
		event, err := formats.CloudEvent("/shop", event)
		require.NoError(t, err)
		require.NoError(t, gormoutbox.Append(s.DB, event))

		msg := s.next()
		received, _ := overKafka(t, msg)
		e, err := formats.ReadCloudEvent(received)
		require.NoError(t, err)
		assert.Equal(t, event.ID.String(), msg.UUID)
		assert.Equal(t, msg.UUID, e.ID())
		assert.Equal(t, event.Type, e.Type())
		assert.Equal(t, event.AggregateID, e.Subject(), "none without an aggregate")
		assert.Equal(t, event.Headers["tenant"], msg.Metadata.Get("tenant"))
		assert.JSONEq(t, `{"carrier":"post"}`, string(e.Data()))
	}
	assert.Equal(t, map[string]string{"tenant": "7"}, own, "the caller's map is the caller's")
}

// TestDelayed: a delayed event waits, those behind it do not.
func TestDelayed(t *testing.T) {
	t.Parallel()
	s := testShop(t, gormoutbox.Config{Marshal: formats.Protobuf})
	later, err := formats.ProtobufEvent(gormoutbox.Event{
		AggregateType: "order", AggregateID: orderID.String(), Type: "order.shipped", AvailableAt: time.Now().Add(time.Hour),
	}, &orderpb.Shipped{Carrier: "post"})
	require.NoError(t, err)
	require.NoError(t, gormoutbox.Append(s.DB, later))
	require.NoError(t, s.Create(&formats.Order{ID: orderID, Status: "placed"}).Error)
	assert.Equal(t, "order.created", s.next().Metadata.Get(gormoutbox.HeaderEventType))
	assert.Equal(t, []string{"order.shipped", "order.created"}, s.eventTypes(t))
}

func TestReadCloudEvent(t *testing.T) {
	t.Parallel()
	with := func(change map[string]string) *message.Message {
		msg := message.NewMessage("id", []byte(`{}`))
		msg.Metadata = message.Metadata{
			"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/other", "ce_type": "a.happened", "content-type": "application/json", "name": "a.happened",
		}
		for name, value := range change {
			msg.Metadata.Set(name, value)
		}
		return msg
	}
	e, err := formats.ReadCloudEvent(with(map[string]string{"ce_time": "2026-01-02T03:04:05Z", "ce_traceparent": "t", "ce_dataschema": "https://s.example"}))
	require.NoError(t, err)
	assert.True(t, e.Time().Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	assert.Equal(t, map[string]any{"traceparent": "t"}, e.Extensions())
	assert.Equal(t, "https://s.example", e.DataSchema())

	for name, change := range map[string]map[string]string{
		"no version": {"ce_specversion": ""}, "version": {"ce_specversion": "9"}, "id": {"ce_id": ""}, "source": {"ce_source": ""}, "type": {"ce_type": ""},
		"time": {"ce_time": "yesterday"}, "extension": {"ce_no-such": "x"},
	} {
		_, err := formats.ReadCloudEvent(with(change))
		assert.Error(t, err, name)
	}
}

// TestOtherModelsAreRefused: with Config.Marshal all models come here.
func TestOtherModelsAreRefused(t *testing.T) {
	t.Parallel()
	for name, fn := range marshallers() {
		_, err := fn(t.Context(), gormoutbox.Change{Model: &formats.Refund{}})
		assert.ErrorContains(t, err, "Refund", name)
	}
}
