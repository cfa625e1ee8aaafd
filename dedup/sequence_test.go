package dedup_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// numbered is a message of an aggregate with a number.
func numbered(ctx context.Context, aggregate string, number int) *message.Message {
	msg := message.NewMessageWithContext(ctx, aggregate+strconv.Itoa(number), nil)
	msg.Metadata.Set(gormoutbox.HeaderAggregateType, "order")
	msg.Metadata.Set(gormoutbox.HeaderAggregateID, aggregate)
	msg.Metadata.Set(gormoutbox.HeaderSequence, strconv.Itoa(number))
	return msg
}

func (b *bundle) deliverNumbered(ctx context.Context, aggregate string, number int, handler func(*message.Message) error) error {
	_, err := b.d.Middleware(consumer(handler))(numbered(ctx, aggregate, number)) //nolint:contextcheck // The message has it.
	return err
}

// handled are the messages with effects, in the order of these.
func (b *bundle) handled(t *testing.T) (ids []string) {
	t.Helper()
	require.NoError(t, b.db.Model(&effect{}).Order("id").Pluck("message_id", &ids).Error)
	return ids
}

func TestLateMessages(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		for _, late := range []dedup.Late{dedup.SkipLate, dedup.ApplyLate} {
			b := setup(t, env, dedup.Config{Consumer: "stock" + strconv.Itoa(int(late)), Sequence: &dedup.Sequence{Late: late}})
			require.NoError(t, b.db.Exec("DELETE FROM effects").Error)
			for _, n := range []int{7, 8, 9} {
				require.NoError(t, b.deliverNumbered(t.Context(), "a", n, write))
			}
			require.NoError(t, b.deliverNumbered(t.Context(), "b", 1, write), "another stream")
			require.NoError(t, b.deliver(t.Context(), "plain", write), "a message without a number")
			require.NoError(t, b.deliverNumbered(t.Context(), "a", 3, write))
			require.NoError(t, b.deliverNumbered(t.Context(), "a", 9, forbidden(t)), "a duplicate, not a late message")
			want, stats := []string{"a7", "a8", "a9", "b1", "plain"}, dedup.Stats{Committed: 5, Duplicates: 1, Stale: 1, Late: 1}
			if late == dedup.ApplyLate {
				want, stats = append(want, "a3"), dedup.Stats{Committed: 6, Duplicates: 1, Late: 1}
			}
			assert.Equal(t, want, b.handled(t))
			assert.Equal(t, stats, b.d.Stats())
			require.NoError(t, b.deliverNumbered(t.Context(), "a", 3, forbidden(t)), "it is recorded")
			require.NoError(t, b.deliverNumbered(t.Context(), "a", 10, write), "a late message does not move the stream back")
			assert.Zero(t, b.d.Stats().Gaps)
		}
	})
}

// TestTheStreamIsPartOfTheTransaction: a message that fails has not moved it.
func TestTheStreamIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Sequence: &dedup.Sequence{}})
		require.ErrorIs(t, b.deliverNumbered(t.Context(), "a", 5, fails), errHandler)
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, write), "the stream begins here")
		require.ErrorIs(t, b.deliverNumbered(t.Context(), "a", 2, fails), errHandler)
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 2, write))
		assert.Equal(t, dedup.Stats{Committed: 2, Failed: 2}, b.d.Stats())
	})
}

func TestAGapIsTold(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var told []dedup.GapError
		b := setup(t, env, dedup.Config{Sequence: &dedup.Sequence{OnGap: func(e *dedup.GapError) { told = append(told, *e) }}})
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, write))
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 4, write))
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 5, write))
		assert.Equal(t, []dedup.GapError{{Consumer: "stock", Stream: "order/a", Reached: 1, Number: 4}}, told)
		assert.Equal(t, dedup.Stats{Committed: 3, Gaps: 1}, b.d.Stats())
	})
}

// TestHeldMessages: those that come too early wait for the others, whichever process has them.
func TestHeldMessages(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		config := dedup.Config{Sequence: &dedup.Sequence{HoldFor: patience}}
		b := setup(t, env, config)
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, write))
		var wg sync.WaitGroup
		for n := 6; n > 2; n-- {
			wg.Go(func() { assert.NoError(t, b.deliverNumbered(context.WithoutCancel(t.Context()), "a", n, write)) })
		}
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 2, write))
		wg.Wait()
		assert.Equal(t, []string{"a1", "a2", "a3", "a4", "a5", "a6"}, b.handled(t))
		assert.Equal(t, dedup.Stats{Committed: 6}, b.d.Stats())
	})
}

// onHeld is a log that calls a function when a message is held.
type onHeld struct {
	slog.Handler

	call func()
}

func (h onHeld) Enabled(context.Context, slog.Level) bool { return true }

func (h onHeld) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "message held" {
		h.call()
	}
	return nil
}

func TestHoldingEnds(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		var held func()
		b := setup(t, env, dedup.Config{
			Sequence: &dedup.Sequence{HoldFor: 300 * time.Millisecond}, Logger: slog.New(onHeld{slog.DiscardHandler, func() { held() }}),
		})
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, write))

		// With its context: it must come again.
		ctx, cancel := context.WithCancel(t.Context())
		held = cancel
		_, gap := errors.AsType[*dedup.GapError](b.deliverNumbered(ctx, "a", 3, forbidden(t)))
		assert.True(t, gap)
		assert.EqualValues(t, 1, b.records(t), "nothing of it is left behind")

		// With its time.
		held = func() {}
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 3, write))
		assert.EqualValues(t, 1, b.d.Stats().Gaps)
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 2, forbidden(t)), "it is late now")
		assert.Equal(t, []string{"a1", "a3"}, b.handled(t))
	})
}

// TestABusyStream: a message waits for another one of its stream no longer than LockTimeout.
func TestABusyStream(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) { // SQLite has one writer
		b := setup(t, env, dedup.Config{Sequence: &dedup.Sequence{}, LockTimeout: 100 * time.Millisecond})
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, write))
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 2, func(msg *message.Message) error {
			err := b.deliverNumbered(t.Context(), "a", 3, forbidden(t))
			require.ErrorIs(t, err, dedup.ErrBusy)
			require.NotErrorIs(t, err, dedup.ErrDatabase)
			return write(msg)
		}))
		require.NoError(t, b.deliverNumbered(t.Context(), "a", 3, write))
	})
}

// TestAStreamThatAnotherBegins: the second message of a stream finds no row of it, and can't insert one either when the first is committed.
// (On MariaDB it waits for that row already when it looks for it.)
func TestAStreamThatAnotherBegins(t *testing.T) {
	t.Parallel()
	env := testenv.Postgres(t)
	env.DSN += "&application_name=" + t.Name()
	b := setup(t, env, dedup.Config{Sequence: &dedup.Sequence{}})
	second := make(chan error, 1)
	require.NoError(t, b.deliverNumbered(t.Context(), "a", 1, func(msg *message.Message) error {
		go func() { second <- b.deliverNumbered(t.Context(), "a", 2, write) }()
		b.awaitLockWait(t)
		return write(msg)
	}))
	require.NoError(t, <-second)
	assert.Equal(t, []string{"a1", "a2"}, b.handled(t))
}

// TestStreamsBeginAtOnce: the first messages of a stream, at once.
func TestStreamsBeginAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{Sequence: &dedup.Sequence{Late: dedup.ApplyLate}})
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				if env.Name == "mariadb" { // InnoDB locks gaps before a row is there, so deadlocks are possible, and then messages come again
					assert.Eventually(t, func() bool { return b.deliverNumbered(t.Context(), "a", n, write) == nil }, patience, time.Millisecond)
					return
				}
				assert.NoError(t, b.deliverNumbered(t.Context(), "a", n, write))
			})
		}
		wg.Wait()
		assert.Len(t, b.handled(t), 8)
		var number int
		require.NoError(t, b.db.Raw("SELECT number FROM processed_events_sequences").Scan(&number).Error)
		assert.Equal(t, 7, number)
	})
}

func TestBadNumbers(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{Sequence: &dedup.Sequence{}})
	deliver := func(change func(message.Metadata)) error {
		msg := numbered(t.Context(), "a", 1)
		change(msg.Metadata)
		_, err := b.d.Middleware(consumer(forbidden(t)))(msg)
		return err
	}
	var wrong *dedup.SequenceError
	require.ErrorAs(t, deliver(func(m message.Metadata) { m.Set(gormoutbox.HeaderSequence, "one") }), &wrong)
	require.ErrorAs(t, deliver(func(m message.Metadata) {
		delete(m, gormoutbox.HeaderAggregateType)
		delete(m, gormoutbox.HeaderAggregateID)
	}), &wrong)
	require.ErrorIs(t, deliver(func(m message.Metadata) { m.Set(gormoutbox.HeaderAggregateID, "a\x00") }), dedup.ErrKeyText)
	assert.Zero(t, b.records(t))

	long, _, ok, err := dedup.SequenceFromMetadata(numbered(t.Context(), strings.Repeat("x", 300), 1))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Len(t, long, 64)

	_, err = dedup.New(b.db, dedup.Config{Sequence: &dedup.Sequence{HoldFor: -1, Late: 7}})
	require.ErrorContains(t, err, "Sequence.HoldFor")
	require.ErrorContains(t, err, "Sequence.Late")
}

// TestAGapErrorOfAHandler is an error like any other.
func TestAGapErrorOfAHandler(t *testing.T) {
	t.Parallel()
	for _, sequence := range []*dedup.Sequence{nil, {HoldFor: time.Hour}} {
		b := setup(t, testenv.SQLite(t), dedup.Config{Sequence: sequence})
		gap := &dedup.GapError{Stream: "another"}
		require.ErrorIs(t, b.deliverNumbered(t.Context(), "7", 1, func(*message.Message) error { return gap }), gap)
		assert.Equal(t, dedup.Stats{Failed: 1}, b.d.Stats())
	}
}

// TestStreamsAreTold apart, whatever the names of aggregates have in them.
func TestStreamsAreTold(t *testing.T) {
	t.Parallel()
	streams := map[string]bool{}
	for _, a := range [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"a%2Fb", "c"}, {"", "a"}, {"a", ""}, {"a%", "b"}, {"a%25", "b"}} {
		msg := message.NewMessage("m", nil)
		msg.Metadata.Set(gormoutbox.HeaderAggregateType, a[0])
		msg.Metadata.Set(gormoutbox.HeaderAggregateID, a[1])
		msg.Metadata.Set(gormoutbox.HeaderSequence, "1")
		stream, number, numbered, err := dedup.SequenceFromMetadata(msg)
		require.NoError(t, err)
		assert.True(t, numbered)
		assert.EqualValues(t, 1, number)
		assert.False(t, streams[stream], stream)
		streams[stream] = true
	}
}
