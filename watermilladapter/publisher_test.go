package watermilladapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

type stored struct {
	ID, AggregateType, AggregateID, EventType, Topic, Headers string
	Payload                                                   []byte
	IsDelayed                                                 bool
}

func (s stored) headers(t *testing.T) (h map[string]string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.Headers), &h))
	return h
}

func outbox(t *testing.T, db *gorm.DB) (all []stored) {
	t.Helper()
	require.NoError(t, db.Raw("SELECT id, aggregate_type, aggregate_id, event_type, topic, headers, payload, available_at IS NOT NULL AS is_delayed FROM outbox_events ORDER BY seq").
		Scan(&all).Error)
	return all
}

func open(t *testing.T, env testenv.Database) *gorm.DB {
	t.Helper()
	db := env.Open(t)
	require.NoError(t, db.Use(gormoutbox.New(gormoutbox.Config{Logger: slog.New(slog.DiscardHandler)})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), db))
	return db
}

func newPublisher(t *testing.T, db *gorm.DB, config watermilladapter.PublisherConfig) *watermilladapter.Publisher {
	t.Helper()
	p, err := watermilladapter.NewPublisher(db, config)
	require.NoError(t, err)
	return p
}

func in(tx *gorm.DB, id string, metadata message.Metadata) *message.Message {
	msg := message.NewMessageWithContext(gormoutbox.WithTx(tx.Statement.Context, tx), id, []byte(id))
	for name, value := range metadata {
		msg.Metadata.Set(name, value)
	}
	return msg
}

func TestPublisherIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env)
		p := newPublisher(t, db, watermilladapter.PublisherConfig{})
		failure := errors.New("rolled back")
		for _, result := range []error{failure, nil} {
			require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, p.Publish("orders"))
				require.NoError(t, p.Publish("orders",
					in(tx, "1", message.Metadata{"name": "order.created", "aggregate_type": "order", "aggregate_id": "7", "own": "x\x00y"}), in(tx, "2", nil)))
				require.NoError(t, p.Publish("others", in(tx, "3", message.Metadata{"event_type": "other.happened", "origin_id": "old", "soft_delete": "true", "_watermill_message_uuid": "u"})))
				return result
			}), result)
			if result != nil {
				assert.Empty(t, outbox(t, db))
			}
		}
		all := outbox(t, db)
		require.Len(t, all, 3)
		assert.Equal(t, map[string]string{"origin_id": "1", "own": "x\x00y"}, all[0].headers(t))
		assert.Equal(t, map[string]string{"origin_id": "2"}, all[1].headers(t))
		assert.Equal(t, map[string]string{"origin_id": "3", "soft_delete": "true"}, all[2].headers(t))
		for i := range all {
			id, err := uuid.Parse(all[i].ID)
			require.NoError(t, err)
			assert.EqualValues(t, 7, id.Version())
			all[i].ID, all[i].Headers = "", ""
		}
		assert.Equal(t, []stored{
			{EventType: "order.created", Topic: "orders", AggregateType: "order", AggregateID: "7", Payload: []byte("1")},
			{EventType: "orders", Topic: "orders", Payload: []byte("2")},
			{EventType: "other.happened", Topic: "others", Payload: []byte("3")},
		}, all)
		require.NoError(t, p.Close())
	})
}

// TestWhatIsPublishedArrives byte for byte, with the topic and the metadata that it had.
func TestWhatIsPublishedArrives(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env)
		p := newPublisher(t, db, watermilladapter.PublisherConfig{OwnTransaction: true})
		msg := message.NewMessage("sender's", []byte{0, 1, 0xff, '"'})
		own := message.Metadata{"name": "pkg.Type", "own": "\u2028 \x00", "": ""}
		delete(own, "")
		msg.Metadata = own
		require.NoError(t, p.Publish("Some.Topic-1", msg))
		require.NoError(t, p.Publish("Some.Topic-1", message.NewMessage("empty", nil)))

		broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		defer func() { assert.NoError(t, broker.Close()) }()
		r, err := relay.New(db, broker, relay.Config{})
		require.NoError(t, err)
		require.NoError(t, r.Drain(t.Context()))
		arrived, err := broker.Subscribe(t.Context(), "Some.Topic-1")
		require.NoError(t, err)
		for range 2 {
			select {
			case got := <-arrived:
				if got.Metadata.Get("origin_id") == "empty" {
					assert.Empty(t, got.Payload)
				} else {
					assert.Equal(t, []byte(msg.Payload), []byte(got.Payload))
					for name, value := range own {
						assert.Equal(t, value, got.Metadata.Get(name), name)
					}
				}
				got.Ack()
			case <-time.After(patience):
				require.Fail(t, "nothing arrived")
			}
		}
	})
}

func TestPublisherWithoutATransaction(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.SQLite(t))
	strict := newPublisher(t, db, watermilladapter.PublisherConfig{})
	require.ErrorIs(t, strict.Publish("orders", message.NewMessage("1", nil)), watermilladapter.ErrNoTransaction)
	require.ErrorIs(t, strict.Publish("orders", in(db, "0", nil)), watermilladapter.ErrNoTransaction, "of a *gorm.DB that is none")
	assert.Empty(t, outbox(t, db))
	own := newPublisher(t, db, watermilladapter.PublisherConfig{OwnTransaction: true})
	require.NoError(t, own.Publish("orders", message.NewMessage("1", nil), message.NewMessage("2", nil)))
	require.NoError(t, own.Publish("orders", in(db, "0", nil)))
	assert.Len(t, outbox(t, db), 3)
	// Still in the one that there is.
	require.Error(t, db.Transaction(func(tx *gorm.DB) error {
		require.NoError(t, own.Publish("orders", in(tx, "3", nil)))
		return errors.New("rolled back")
	}))
	assert.Len(t, outbox(t, db), 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, own.Publish("orders", message.NewMessageWithContext(ctx, "4", nil)), context.Canceled)
}

func TestPublisherOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	db, other := open(t, testenv.SQLite(t)), open(t, testenv.SQLite(t))
	for _, config := range []watermilladapter.PublisherConfig{{}, {OwnTransaction: true}} {
		p := newPublisher(t, db, config)
		require.NoError(t, other.Transaction(func(tx *gorm.DB) error {
			require.ErrorIs(t, p.Publish("orders", in(tx, "1", nil)), watermilladapter.ErrOtherDatabase)
			return nil
		}))
	}
	p := newPublisher(t, db, watermilladapter.PublisherConfig{OwnTransaction: true})
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		err := p.Publish("orders", in(tx, "1", nil), message.NewMessage("2", nil))
		requireField(t, err, "context")
		return nil
	}))
	assert.Empty(t, outbox(t, db))
	_, err := watermilladapter.NewPublisher(testenv.SQLite(t).Open(t), watermilladapter.PublisherConfig{})
	require.ErrorIs(t, err, gormoutbox.ErrNotRegistered)
	_, err = watermilladapter.NewPublisher(nil, watermilladapter.PublisherConfig{})
	require.Error(t, err)
}

// TestAnIgnoredErrorOfThePublisher must not commit what was to be published with it.
func TestAnIgnoredErrorOfThePublisher(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env)
		p := newPublisher(t, db, watermilladapter.PublisherConfig{})
		require.Error(t, db.Transaction(func(tx *gorm.DB) error {
			require.NoError(t, p.Publish("orders", in(tx, "1", nil)))
			require.Error(t, p.Publish("orders", in(tx, "2", message.Metadata{"bad": "\xff"})))
			return nil
		}))
		assert.Empty(t, outbox(t, db))
	})
}

func TestMessagesThatCannotBeEvents(t *testing.T) {
	t.Parallel()
	failure := errors.New("no aggregate")
	for field, test := range map[string]struct {
		topic     string
		msg       *message.Message
		aggregate watermilladapter.AggregateFunc
	}{
		"message":                  {topic: "t"},
		"topic":                    {msg: message.NewMessage("1", nil)},
		"_watermill_delayed_until": {topic: "t", msg: &message.Message{Metadata: message.Metadata{"_watermill_delayed_until": "soon"}}},
		"aggregate": {topic: "t", msg: message.NewMessage("1", nil), aggregate: func(string, *message.Message) (string, string, error) {
			return "", "", failure
		}},
	} {
		_, err := watermilladapter.ToEvent(test.topic, test.msg, test.aggregate)
		requireField(t, err, field)
		if test.aggregate != nil {
			require.ErrorIs(t, err, failure)
		}
	}
	_, err := watermilladapter.ToEvent("t", &message.Message{}, nil)
	require.NoError(t, err, "nil metadata")
}

func TestAggregateOfAMessage(t *testing.T) {
	t.Parallel()
	e, err := watermilladapter.ToEvent("orders", message.NewMessage("7", nil), func(topic string, msg *message.Message) (string, string, error) {
		return topic, msg.UUID, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "orders", e.AggregateType)
	assert.Equal(t, "7", e.AggregateID)
}

// TestDelay: a message that Watermill's component delays is published by the relay when its time has come.
func TestDelay(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "_watermill_delayed_until", delay.DelayedUntilKey)
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		db := open(t, env)
		pub, err := delay.NewPublisher(newPublisher(t, db, watermilladapter.PublisherConfig{OwnTransaction: true}), delay.PublisherConfig{AllowNoDelay: true})
		require.NoError(t, err)
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		for _, d := range []delay.Delay{delay.Until(until), delay.Until(time.Now().Add(-time.Hour))} {
			require.NoError(t, pub.Publish("orders", message.NewMessageWithContext(delay.WithContext(t.Context(), d), "1", nil)))
		}
		all := outbox(t, db)
		require.Len(t, all, 2)
		assert.True(t, all[0].IsDelayed)
		assert.Equal(t, until.UTC().Format(time.RFC3339), all[0].headers(t)[delay.DelayedUntilKey])
		assert.Contains(t, all[0].headers(t), delay.DelayedForKey)
		assert.False(t, all[1].IsDelayed, "its time has come")
	})
}
