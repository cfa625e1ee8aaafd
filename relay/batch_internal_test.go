package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// batchFunc is a publisher of batches.
type batchFunc func(ctx context.Context, batch []watermilladapter.Outgoing) []error

func (batchFunc) Publish(string, ...*message.Message) error {
	return errors.New("a batch publisher gets batches")
}
func (batchFunc) Close() error { return errors.New("not ours to close") }
func (f batchFunc) PublishBatch(ctx context.Context, batch []watermilladapter.Outgoing) []error {
	return f(ctx, batch)
}

func newBatches(f batchFunc) *batches {
	return &batches{publisher: f, timeout: time.Hour, valid: func(int) bool { return true }}
}

func payloads(batch []watermilladapter.Outgoing) string {
	all := make([]string, len(batch))
	for i, o := range batch {
		all[i] = string(o.Message.Payload)
	}
	return strings.Join(all, " ")
}

// each is a batch publisher made of what happens to single messages.
func eachMessage(calls *[]string, f func(payload string) error) batchFunc {
	return func(_ context.Context, batch []watermilladapter.Outgoing) []error {
		*calls = append(*calls, payloads(batch))
		errs := make([]error, len(batch))
		for i, o := range batch {
			errs[i] = f(string(o.Message.Payload))
		}
		return errs
	}
}

func told(out []outcome) map[int64]string {
	m := map[int64]string{}
	for _, o := range out {
		m[o.item.Seq] = "ok"
		if o.err != nil {
			m[o.item.Seq] = o.err.Error()
			if o.others {
				m[o.item.Seq] += ", others went"
			}
		}
	}
	return m
}

func TestABatchSettlesOnlyThePrefixOfEachAggregate(t *testing.T) {
	t.Parallel()
	var calls []string
	unreadable := full(1, 6, "l")
	unreadable.EventType = ""
	items := []item{full(1, 3, "k"), full(1, 1, "k"), full(1, 2, "k"), full(1, 4, "l"), full(1, 5, "m"), unreadable, full(1, 7, "l"), full(2, 8, "z")}
	b := newBatches(eachMessage(&calls, func(p string) error {
		if p == "k2" {
			return errors.New("no")
		}
		return nil
	}))
	b.valid = func(part int) bool { return part == 1 }
	out := b.send(t.Context(), nil, items)
	assert.Equal(t, []string{"k1 k2 k3 l4 m5"}, calls, "in order of each aggregate, nothing behind what can't be read, nothing of a lost partition")
	const cure = "the row was not written by gormoutbox; mend or delete it"
	assert.Equal(t, map[int64]string{
		1: "ok", 2: "no, others went", 4: "ok", 5: "ok", 6: "watermilladapter: event_type: it is empty; " + cure + ", others went",
	}, told(out), "k3 went out, but stands behind k2")
}

func TestOthersOfABatchAreOtherAggregates(t *testing.T) {
	t.Parallel()
	var calls []string
	b := newBatches(eachMessage(&calls, func(p string) error {
		if p == "k1" {
			return nil
		}
		return errors.New("no")
	}))
	assert.Equal(t, map[int64]string{1: "ok", 2: "no"}, told(b.send(t.Context(), nil, []item{full(1, 1, "k"), full(1, 2, "k")})), "its own aggregate does not count")
	assert.Equal(t, map[int64]string{1: "ok", 2: "no, others went"}, told(b.send(t.Context(), nil, []item{full(1, 1, "k"), full(1, 2, "l")})))
	assert.Equal(t, map[int64]string{3: "no", 2: "no"}, told(b.send(t.Context(), nil, []item{full(1, 3, "k"), full(1, 2, "l")})))
}

func TestAPanicOfABatchIsThatOfOneMessage(t *testing.T) {
	t.Parallel()
	var calls []string
	b := newBatches(eachMessage(&calls, func(p string) error {
		if p == "k2" {
			panic("oh")
		}
		return nil
	}))
	out := b.send(t.Context(), nil, []item{full(1, 1, "k"), full(1, 2, "k"), full(1, 3, "k"), full(1, 4, "l")})
	assert.Equal(t, []string{"k1 k2 k3 l4", "k1", "k2", "l4"}, calls)
	assert.Equal(t, map[int64]string{1: "ok", 2: "relay: the publisher panicked: oh, others went", 4: "ok"}, told(out))
}

func TestAnAnswerThatDoesNotFitIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := newBatches(func(context.Context, []watermilladapter.Outgoing) []error { return nil })
	out := b.send(t.Context(), nil, []item{full(1, 1, "k")})
	assert.Equal(t, map[int64]string{1: "relay: the publisher returned 0 errors for 1 messages"}, told(out))
}

func TestABatchThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		leave := make(chan struct{})
		b := newBatches(func(ctx context.Context, batch []watermilladapter.Outgoing) []error {
			if calls.Add(1) == 1 {
				<-leave
			}
			return make([]error, len(batch))
		})
		b.timeout = time.Minute
		items := []item{full(1, 1, "k"), full(1, 2, "l")}
		begin := time.Now()
		out := b.send(t.Context(), nil, items)
		assert.Equal(t, time.Minute+hungGrace, time.Since(begin))
		require.Len(t, out, 2)
		for _, o := range out {
			require.ErrorIs(t, o.err, ErrPublishTimeout)
		}
		out = b.send(t.Context(), nil, items)
		require.ErrorIs(t, out[0].err, errHung)
		assert.EqualValues(t, 1, calls.Load(), "nothing more is given to it")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.False(t, b.wait(ctx))
		close(leave)
		assert.True(t, b.wait(t.Context()))
		synctest.Wait()
		assert.Equal(t, map[int64]string{1: "ok", 2: "ok"}, told(b.send(t.Context(), nil, items)), "it has returned")
	})
}

func TestABatchHearsOfItsTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(func(ctx context.Context, batch []watermilladapter.Outgoing) []error {
			<-ctx.Done()
			if batch[0].Message.Context().Err() != nil {
				return nil
			}
			return []error{nil, ctx.Err()}
		})
		b.timeout = time.Minute
		begin := time.Now()
		out := b.send(t.Context(), nil, []item{full(1, 1, "k"), full(1, 2, "k")})
		assert.Equal(t, map[int64]string{1: "ok", 2: "context deadline exceeded"}, told(out))
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestNoBatchBeginsAfterTheStop(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	var calls []string
	assert.Empty(t, newBatches(eachMessage(&calls, func(string) error { return nil })).send(t.Context(), stop, []item{full(1, 1, "k")}))
	assert.Empty(t, calls)
}

// A worker whose Publish hangs is replaced, so the other aggregates go on.
func TestALaneThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		l := newLanes(2, func(msg *message.Message) error {
			if msg.Payload[0] == 'x' {
				<-leave
			}
			time.Sleep(time.Second) // the bubble's clock
			return nil
		})
		l.timeout = time.Minute
		items := []item{full(1, 1, "x"), full(1, 2, "x"), full(1, 3, "y"), full(1, 4, "z"), full(1, 5, "xx")}
		got := told(l.send(t.Context(), nil, items))
		timeout := ErrPublishTimeout.Error()
		// Two hang, which is as many as there are workers.
		assert.Equal(t, map[int64]string{1: timeout + ", others went", 3: "ok", 4: "ok", 5: timeout}, got)
		out := l.send(t.Context(), nil, []item{full(1, 6, "a")})
		require.Len(t, out, 1)
		require.ErrorIs(t, out[0].err, errHung)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.False(t, l.wait(ctx))
		close(leave)
		assert.True(t, l.wait(t.Context()))
		assert.Equal(t, map[int64]string{6: "ok"}, told(l.send(t.Context(), nil, []item{full(1, 6, "a")})))
	})
}

func TestGivingUpLeavesOnlyWhatIsInPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		leave := make(chan struct{})
		l := newLanes(1, func(msg *message.Message) error {
			if string(msg.Payload) == "k2" {
				cancel()
				<-leave
			}
			return nil
		})
		assert.Equal(t, map[int64]string{1: "ok"}, told(l.send(ctx, nil, []item{full(1, 1, "k"), full(1, 2, "k"), full(1, 3, "l")})))
		close(leave)
		assert.True(t, l.wait(t.Context()))
	})
}

func TestManyFailingAggregatesAreAnOutage(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{})
	f.items = keys(20)
	failing := 11
	f.send = func(items []item) (out []outcome) {
		for i := range items {
			o := outcome{item: &items[i]}
			if i < failing {
				o.err, o.others = errFake, true
			}
			out = append(out, o)
		}
		return out
	}
	charged := 0
	f.settle = func(d []decision) (settlement, error) {
		for _, d := range d {
			if d.verdict != published {
				charged++
			}
		}
		return settlement{}, nil
	}
	r.mustPass(t, st)
	assert.Zero(t, charged, "most of the aggregates fail")
	assert.Equal(t, 1, st.outage)

	st.outage, failing = 0, 10
	r.mustPass(t, st)
	assert.Equal(t, 10, charged, "no more than half do")
	assert.Zero(t, st.outage)

	charged, f.items, failing = 0, keys(7), 7
	r.mustPass(t, st)
	assert.Equal(t, 7, charged, "not many do")

	charged, f.items, failing = 0, keys(20), 11
	r.config.Classify = func(error) Class { return Retryable }
	r.mustPass(t, st)
	assert.Equal(t, 11, charged, "Classify knows better")
}

func TestABatchPublisherIsFoundByItsMethod(t *testing.T) {
	t.Parallel()
	_, r := migrated(t, testenv.SQLite(t), Config{Logger: slog.New(slog.DiscardHandler)})
	assert.IsType(t, &lanes{}, r.sender)
	b, err := New(r.db, newBatches(nil).publisher, Config{PublishTimeout: time.Second})
	require.NoError(t, err)
	require.IsType(t, &batches{}, b.sender)
	assert.Equal(t, time.Second, b.sender.(*batches).timeout)
}

// knowing is a publisher that knows its errors.
type knowing struct{ batchFunc }

func (knowing) IsPermanent(err error) bool { return err.Error() == "too large" }
func (knowing) IsOutage(err error) bool    { return err.Error() == "no broker" }

func TestThePublisherSaysWhatItsErrorsMean(t *testing.T) {
	t.Parallel()
	_, r := migrated(t, testenv.SQLite(t), Config{})
	classes := func(config Config) (out []Class) {
		b, err := New(r.db, knowing{}, config)
		require.NoError(t, err)
		for _, text := range []string{"too large", "no broker", "other"} {
			out = append(out, b.classify(errors.New(text)))
		}
		return out
	}
	assert.Equal(t, []Class{Permanent, Outage, Unknown}, classes(Config{}))
	assert.Equal(t, []Class{Retryable, Retryable, Retryable}, classes(Config{Classify: func(error) Class { return Retryable }}), "the config knows better")
}
