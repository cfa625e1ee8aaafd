package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// stored is an event as the tests look at it.
type stored struct {
	ID, AggregateType, AggregateID, EventType, Topic, Headers string
	Payload                                                   []byte
}

func (s stored) headers(t *testing.T) (h map[string]string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.Headers), &h))
	return h
}

func (b *bundle) outbox(t *testing.T) (all []stored) {
	t.Helper()
	require.NoError(t, b.db.Raw("SELECT id, aggregate_type, aggregate_id, event_type, topic, headers, payload FROM outbox_events ORDER BY seq").Scan(&all).Error)
	return all
}

// withOutbox is setup with the plugin.
func withOutbox(t *testing.T, env testenv.Database, plugin gormoutbox.Config) *bundle {
	t.Helper()
	b := setup(t, env, dedup.Config{})
	if plugin.Logger == nil {
		plugin.Logger = slog.New(slog.DiscardHandler)
	}
	require.NoError(t, b.db.Use(gormoutbox.New(plugin)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), b.db))
	return b
}

// incoming is a message as a router hands it over that publishes what the handler returns to "invoices".
func incoming(t *testing.T, id string, metadata message.Metadata) (msg *message.Message) {
	t.Helper()
	in := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	got := make(chan *message.Message, 1)
	router.AddHandler("h", "orders", in, "invoices", in, func(msg *message.Message) ([]*message.Message, error) {
		got <- msg
		return nil, nil
	})
	go func() { _ = router.Run(context.WithoutCancel(t.Context())) }()
	isDone(t, router.Running(), "the router's start")
	first := message.NewMessage(id, nil)
	first.Metadata = metadata
	require.NoError(t, in.Publish("orders", first))
	msg = <-got
	require.NoError(t, router.Close())
	require.NoError(t, in.Close())
	again := msg.Copy()
	again.SetContext(context.WithoutCancel(msg.Context()))
	return again
}

func TestOutputsAreOneCommitWithTheRecord(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{Topic: func(gormoutbox.TopicParams) string { return "not for messages" }})
		fail := true
		handler := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if err := write(msg); err != nil {
				return nil, err
			}
			if fail {
				return message.Messages{message.NewMessage("o1", nil)}, errHandler
			}
			first, second := message.NewMessage("o1", []byte{0, 0xff}), message.NewMessage("o2", nil)
			first.Metadata = message.Metadata{
				"name": "invoice.made", "aggregate_type": "invoice", "aggregate_id": "7", "event_version": "3",
				"own": "x", "correlation_id": "mine", "changed": "a,b", "replayed": "true", "occurred_at": "long ago",
			}
			return message.Messages{first, second}, nil
		})
		in := message.Metadata{"correlation_id": "c", "traceparent": "tp", "tracestate": "ts", "other": "not carried on"}
		produced, err := handler(incoming(t, "m1", in))
		require.ErrorIs(t, err, errHandler)
		assert.Empty(t, produced)
		assert.Empty(t, b.outbox(t))
		assert.Zero(t, b.records(t))

		fail = false
		for range 2 {
			produced, err = handler(incoming(t, "m1", in))
			require.NoError(t, err)
			assert.Empty(t, produced, "the router publishes none")
		}
		all := b.outbox(t)
		require.Len(t, all, 2)
		assert.EqualValues(t, 1, b.effects(t))
		one, two := all[0], all[1]
		assert.Equal(t, dedup.OutputID("stock", "m1", 0).String(), one.ID)
		assert.Equal(t, dedup.OutputID("stock", "m1", 1).String(), two.ID)
		one.ID, two.ID = "", ""
		assert.Equal(t, map[string]string{
			"origin_id": "o1", "event_version": "3", "own": "x", "correlation_id": "mine", "changed": "a,b",
			"causation_id": "m1", "traceparent": "tp", "tracestate": "ts",
		}, one.headers(t))
		assert.Equal(t, map[string]string{
			"origin_id": "o2", "correlation_id": "c", "causation_id": "m1", "traceparent": "tp", "tracestate": "ts",
		}, two.headers(t))
		one.Headers, two.Headers = "", ""
		assert.Empty(t, two.Payload)
		two.Payload = nil // or not nil, as the driver likes
		assert.Equal(t, stored{EventType: "invoice.made", AggregateType: "invoice", AggregateID: "7", Topic: "invoices", Payload: []byte{0, 0xff}}, one)
		assert.Equal(t, stored{EventType: "invoices", Topic: "invoices"}, two)
	})
}

// TestOutputsAgainAfterTheRecordIsGone: the ids are the same, so nothing is published twice.
func TestOutputsAgainAfterTheRecordIsGone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var log strings.Builder
		b := withOutbox(t, env, gormoutbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		n := 1
		handler := b.d.Middleware(func(*message.Message) ([]*message.Message, error) {
			return message.Messages{message.NewMessage("a", nil), message.NewMessage("b", nil)}[:n], nil
		})
		for ; n <= 2; n++ {
			_, err := handler(incoming(t, "m1", nil))
			require.NoError(t, err)
			assert.Len(t, b.outbox(t), n, "one that is new, and one that was there")
			require.NoError(t, b.db.Exec("DELETE FROM processed_events").Error)
		}
		assert.Equal(t, 1, strings.Count(log.String(), "is in the outbox already"))
		assert.Contains(t, log.String(), dedup.OutputID("stock", "m1", 0).String())
	})
}

func TestOutputIDs(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "11c4df17-e9bb-57c4-a75e-a05457fce3bc", dedup.OutputID("stock", "m1", 0).String(), "ids are for ever")
	seen := map[string]bool{}
	for _, consumer := range []string{"a", "ab", "\x01a"} {
		for _, id := range []string{"b", "bc", "c"} {
			for place := range 300 {
				made := dedup.OutputID(consumer, id, place)
				assert.EqualValues(t, 5, made.Version())
				seen[made.String()] = true
			}
		}
	}
	assert.Len(t, seen, 3*3*300)
}

func TestOutputsThatAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		other := gormoutbox.New(gormoutbox.Config{})
		tests := map[string]struct {
			config  dedup.Config
			without bool // the plugin
			topic   bool
			cause   string
		}{
			"without an outbox": {without: true, topic: true, cause: "not registered"},
			"of another db":     {config: dedup.Config{Outbox: other}, topic: true, cause: "not registered"},
			"without a topic":   {cause: "no publish topic"},
		}
		for name, test := range tests {
			b := setup(t, env, test.config)
			if !test.without {
				require.NoError(t, b.db.Use(gormoutbox.New(gormoutbox.Config{})))
				require.NoError(t, gormoutbox.Migrate(t.Context(), b.db))
			}
			msg := message.NewMessage("m1", nil)
			if test.topic {
				msg = incoming(t, "m1", nil)
			}
			_, err := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				return message.Messages{message.NewMessage("a", nil)}, write(msg)
			})(msg)
			require.ErrorIs(t, err, dedup.ErrProducedMessages, name)
			e, ok := errors.AsType[*dedup.ProducedMessagesError](err)
			require.True(t, ok)
			assert.Contains(t, e.Cause, test.cause, name)
			assert.NotEmpty(t, e.Cure)
			assert.Equal(t, 1, e.Count)
			assert.Zero(t, b.effects(t), name)
			assert.Zero(t, b.records(t), name)
			b.idle(t)
		}
	})
}

// TestOutputsWithoutTables says what to do, as saves do.
func TestOutputsWithoutTables(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		require.NoError(t, b.db.Use(gormoutbox.New(gormoutbox.Config{Logger: slog.New(slog.DiscardHandler)})))
		_, err := b.d.Middleware(func(*message.Message) ([]*message.Message, error) {
			return message.Messages{message.NewMessage("a", nil)}, nil
		})(incoming(t, "m1", nil))
		var schema *gormoutbox.SchemaError
		require.ErrorAs(t, err, &schema)
	})
}

// TestOutputsOfTwoTables: the same consumer under two records has handled a message twice, and each handling has its own outputs.
func TestOutputsOfTwoTables(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{})
	require.NoError(t, dedup.MigrateTable(t.Context(), b.db, "others"))
	other, err := dedup.New(b.db, dedup.Config{Consumer: "stock", Table: "others"})
	require.NoError(t, err)
	for _, d := range []*dedup.Deduplicator{b.d, other} {
		_, err := d.Middleware(func(*message.Message) ([]*message.Message, error) {
			return message.Messages{message.NewMessage("o", nil)}, nil
		})(incoming(t, "m1", nil))
		require.NoError(t, err)
	}
	all := b.outbox(t)
	require.Len(t, all, 2)
	assert.Equal(t, dedup.OutputID("others/stock", "m1", 0).String(), all[1].ID)
}

// TestOutputsThatAreTooLate, like a handler without any, see TestCommitTimeout.
func TestOutputsThatAreTooLate(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{})
		d, err := dedup.New(b.db, dedup.Config{Consumer: "stock", CommitTimeout: 10 * time.Millisecond})
		require.NoError(t, err)
		msg := incoming(t, "m1", nil)
		ctx, cancel := context.WithCancel(msg.Context())
		msg.SetContext(ctx)
		_, err = d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			cancel()
			assert.Eventually(t, func() bool { // the transaction's time is over
				return dedup.Tx(context.WithoutCancel(msg.Context())).Exec("SELECT 1").Error != nil
			}, patience, time.Millisecond)
			return message.Messages{message.NewMessage("o", nil)}, nil
		})(msg)
		require.ErrorIs(t, err, dedup.ErrCommitTimeout)
		require.NotErrorIs(t, err, context.Canceled)
		assert.Empty(t, b.outbox(t))
	})
}

func TestAnOutputThatIsNoEvent(t *testing.T) {
	t.Parallel()
	b := withOutbox(t, testenv.SQLite(t), gormoutbox.Config{})
	for name, out := range map[string]*message.Message{
		"nil":               nil,
		"half an aggregate": {UUID: "a", Metadata: message.Metadata{"aggregate_id": "1"}},
		"binary":            {UUID: "a", Metadata: message.Metadata{"x": "\xff"}},
		"no time":           {UUID: "a", Metadata: message.Metadata{"_watermill_delayed_until": "soon"}},
	} {
		_, err := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			return message.Messages{message.NewMessage("good", nil), out}, write(msg)
		})(incoming(t, "m1", nil))
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), "2 of 2", name)
		assert.Empty(t, b.outbox(t), name)
		assert.Zero(t, b.effects(t), name)
	}
}

// TestOutputsWakeTheRelayOfTheProcess, and reach the broker as the handler made them.
func TestOutputsWakeTheRelayOfTheProcess(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{})
		plugin, err := gormoutbox.On(b.db)
		require.NoError(t, err)
		sub := plugin.Subscribe()
		defer sub.Close()
		out := message.NewMessage("o", []byte("p"))
		out.Metadata.Set("name", "invoice.made")
		_, err = b.d.Middleware(func(*message.Message) ([]*message.Message, error) { return message.Messages{out}, nil })(incoming(t, "m1", nil))
		require.NoError(t, err)
		isDone(t, sub.Committed(), "the signal of the commit")

		broker := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
		defer func() { assert.NoError(t, broker.Close()) }()
		r, err := relay.New(b.db, broker, relay.Config{})
		require.NoError(t, err)
		require.NoError(t, r.Drain(t.Context()))
		arrived, err := broker.Subscribe(t.Context(), "invoices")
		require.NoError(t, err)
		select {
		case msg := <-arrived:
			assert.Equal(t, dedup.OutputID("stock", "m1", 0).String(), msg.UUID)
			assert.Equal(t, "p", string(msg.Payload))
			assert.Equal(t, "invoice.made", msg.Metadata.Get("name"))
			assert.Equal(t, "o", msg.Metadata.Get("origin_id"))
			msg.Ack()
		case <-time.After(patience):
			require.Fail(t, "nothing arrived")
		}
	})
}

// TestOutputsOfARouterThatCloses: the message's context has ended, and the work is done all the same.
func TestOutputsOfARouterThatCloses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{})
		msg := incoming(t, "m1", nil)
		ctx, cancel := context.WithCancel(msg.Context())
		msg.SetContext(ctx)
		_, err := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			err := write(msg)
			cancel()
			return message.Messages{message.NewMessage("o", nil)}, err
		})(msg)
		require.NoError(t, err)
		assert.Len(t, b.outbox(t), 1)
		assert.EqualValues(t, 1, b.effects(t))
	})
}

func TestAHandlerThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := withOutbox(t, env, gormoutbox.Config{})
		for _, outputs := range []int{0, 1} {
			for name, end := range map[string]func(tx *gorm.DB) *gorm.DB{"commit": (*gorm.DB).Commit, "rollback": (*gorm.DB).Rollback} {
				id := name + strings.Repeat("x", outputs)
				ended := func(msg *message.Message) ([]*message.Message, error) {
					require.NoError(t, write(msg))
					require.NoError(t, end(dedup.Tx(msg.Context())).Error)
					return message.Messages{message.NewMessage("o", nil)}[:outputs], nil
				}
				_, err := b.d.Middleware(ended)(incoming(t, id, nil))
				require.ErrorIs(t, err, dedup.ErrEndedByHandler, name)
				assert.Empty(t, b.outbox(t))
				b.idle(t)
			}
		}
		assert.EqualValues(t, 2, b.records(t), "those that were committed")
	})
}
