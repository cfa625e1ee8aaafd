package gormoutbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestTransactionsInContexts(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Order{})
	assert.Nil(t, gormoutbox.TxFrom(t.Context()))
	assert.Nil(t, gormoutbox.TxFrom(gormoutbox.WithTx(t.Context(), g)), "it is no transaction")
	type key struct{}
	require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
		ctx := context.WithValue(gormoutbox.WithTx(t.Context(), tx.Where("1 = 0")), key{}, 1)
		found := gormoutbox.TxFrom(ctx)
		assert.Equal(t, ctx, found.Statement.Context)
		require.NoError(t, found.Create(newOrder()).Error)
		assert.Equal(t, 1, count(t, found, &Order{}), "without conditions that the handle had")
		return errHook
	}), errHook)
	assert.Zero(t, count(t, g, &Order{}))
}

// TestLayersOfHeaders: defaults, the plugin's, the context's, the event's; the later ones win.
func TestLayersOfHeaders(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{Headers: func(context.Context) map[string]string {
		return map[string]string{"b": "plugin", "c": "plugin", "d": "plugin"}
	}}, &Order{})
	ctx := gormoutbox.WithDefaultHeaders(t.Context(), map[string]string{"a": "first", "b": "default", "traceparent": "tp", "tracestate": "ts"})
	ctx = gormoutbox.WithDefaultHeaders(ctx, map[string]string{"a": "default"})
	ctx = gormoutbox.WithHeaders(ctx, map[string]string{"c": "context", "d": "context"})
	add := func(ctx context.Context, headers map[string]string) {
		require.NoError(t, gormoutbox.Append(g.WithContext(ctx), gormoutbox.Event{Type: "t", Payload: "1", Headers: headers}))
	}
	add(ctx, map[string]string{"d": "event"})
	add(gormoutbox.WithHeaders(ctx, map[string]string{"traceparent": "own"}), nil)
	require.NoError(t, g.WithContext(ctx).Create(newOrder()).Error)
	all := events(t, g)
	want := map[string]string{"a": "default", "b": "plugin", "c": "context", "d": "event", "traceparent": "tp", "tracestate": "ts"}
	assert.Equal(t, want, all[0].headers(t))
	want["d"], want["traceparent"] = "context", "own"
	delete(want, "tracestate")
	assert.Equal(t, want, all[1].headers(t), "the state belongs to another trace")
	assert.Equal(t, "default", all[2].headers(t)["a"], "saves too")

	for _, bad := range []map[string]string{{"name": "reserved"}, {"": "x"}, {"x": "\xff"}} {
		err := gormoutbox.Append(g.WithContext(gormoutbox.WithDefaultHeaders(t.Context(), bad)), gormoutbox.Event{Type: "t", Payload: "1"})
		e, ok := errors.AsType[*gormoutbox.EventError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "Headers", e.Field)
	}
}

func TestForwardedEvents(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Order{})
	require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{
		Type: "t", Payload: "1", OriginID: "o", Version: "2",
		Carried: map[string]string{
			"changed": "a", "previous": "{}", "previous_aggregate_id": "1", "soft_delete": "true", // describe the payload
			"own": "x", "name": "x", "event_type": "x", "event_version": "1", "origin_id": "x", "replayed": "true", "occurred_at": "x",
		},
	}))
	assert.Equal(t, map[string]string{
		"origin_id": "o", "event_version": "2", "changed": "a", "previous": "{}", "previous_aggregate_id": "1", "soft_delete": "true",
	}, events(t, g)[0].headers(t))
	for field, bad := range map[string]gormoutbox.Event{
		"OriginID": {OriginID: "\xff"},
		"Carried":  {Carried: map[string]string{"changed": "\xff"}},
		"ID":       {Once: true},
	} {
		bad.Type, bad.Payload = "t", "1"
		e, ok := errors.AsType[*gormoutbox.EventError](gormoutbox.Append(g, bad))
		require.True(t, ok)
		assert.Equal(t, field, e.Field)
	}
	long := gormoutbox.Event{Type: "t", Payload: "1", OriginID: strings.Repeat("x", gormoutbox.MaxName+1)}
	require.Error(t, gormoutbox.Append(g, long))
}

func TestOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		var log strings.Builder
		g := setup(t, db, gormoutbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, &Order{})
		once := func(n int) (batch []gormoutbox.Event) {
			for i := range n {
				batch = append(batch, gormoutbox.Event{ID: uuid.NewSHA1(uuid.NameSpaceURL, []byte{byte(i), byte(i >> 8)}), Type: "t", Payload: "1", Once: true})
			}
			return batch
		}
		require.NoError(t, gormoutbox.Append(g, once(2)...))
		require.NoError(t, g.Exec("UPDATE outbox_events SET attempts = 7").Error)
		require.NoError(t, gormoutbox.Append(g, once(2)...))
		assert.Len(t, events(t, g), 2)
		assert.Equal(t, 2, strings.Count(log.String(), "is in the outbox already"))
		// More than one statement asks for, with one beside them that is not once.
		require.NoError(t, gormoutbox.Append(g, append(once(1203), gormoutbox.Event{Type: "other", Payload: "1"})...))
		all := events(t, g)
		assert.Len(t, all, 1204)
		assert.Equal(t, "other", all[1203].EventType)
		var kept int64
		require.NoError(t, g.Table("outbox_events").Where("attempts = 7").Count(&kept).Error)
		assert.EqualValues(t, 2, kept)
		// Twice in one call is a mistake, and not passed over.
		twice := gormoutbox.Event{ID: uuid.New(), Type: "t", Payload: "1", Once: true}
		require.Error(t, gormoutbox.Append(g, twice, twice))
		idle(t, g)
	})
}

// TestWatchingATransactionOfOthers: the relays of the process hear of its commit, and of nothing else.
func TestWatchingATransactionOfOthers(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Order{})
	plugin, err := gormoutbox.On(g)
	require.NoError(t, err)
	sub := plugin.Subscribe()
	defer sub.Close()
	for _, commits := range []bool{false, true} {
		tx := g.Begin()
		require.NoError(t, tx.Error)
		w := gormoutbox.Watch(tx)
		require.NoError(t, tx.Create(newOrder()).Error)
		require.NoError(t, w.BeforeCommit(t.Context()))
		assert.Empty(t, sub.Committed())
		if commits {
			require.NoError(t, tx.Commit().Error)
		} else {
			require.NoError(t, tx.Rollback().Error)
		}
		w.End(commits)
		assert.Equal(t, commits, len(sub.Committed()) == 1)
	}
	without := testenv.SQLite(t).Open(t).Begin()
	defer without.Rollback()
	w := gormoutbox.Watch(without)
	assert.Nil(t, w)
	require.NoError(t, w.BeforeCommit(t.Context()))
	w.End(true)
}
