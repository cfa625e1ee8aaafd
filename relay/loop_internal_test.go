package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// fakes are the three seams without a database or a broker.
type fakes struct {
	items   []item // what is pending
	readErr error
	send    func(items []item) []outcome
	settle  func(decisions []decision) (settlement, error)
	fallen  map[int]int64
	reads   []time.Time
	sent    [][]int64
	seen    []settlement
}

func (f *fakes) read(_ context.Context, _ []lease, limit int) (page, error) {
	f.reads = append(f.reads, time.Now())
	if f.readErr != nil {
		return page{}, f.readErr
	}
	return page{items: f.items[:min(limit, len(f.items))], full: len(f.items) >= limit, covered: map[int]int64{1: math.MaxInt64}}, nil
}

func (f *fakes) next(context.Context, []lease, page, int) (page, error) { return page{}, errFake }

func (f *fakes) settled(_ page, s settlement) bool {
	f.seen = append(f.seen, s)
	return false
}
func (f *fakes) fallBack(part int, seq int64) { f.fallen[part] = seq }
func (f *fakes) low(lease) int64              { return 0 }

type fakeSender struct{ *fakes }

func (f fakeSender) send(_ context.Context, _ <-chan struct{}, items []item) []outcome {
	var seqs []int64
	for i := range items {
		seqs = append(seqs, items[i].Seq)
	}
	f.sent = append(f.sent, seqs)
	return f.fakes.send(items)
}

func (fakeSender) wait(context.Context) bool { return true }

type fakeSettler struct{ *fakes }

func (f fakeSettler) settle(_ context.Context, _ []lease, d []decision) (settlement, error) {
	return f.fakes.settle(d)
}

var errFake = errors.New("away")

// newFake is a relay that owns partition 1 for ever and looks for nothing beside the reader's pages.
func newFake(config Config) (*Relay, *fakes, *loopState) {
	f := &fakes{fallen: map[int]int64{}}
	f.send = func(items []item) (out []outcome) {
		for i := range items {
			out = append(out, outcome{item: &items[i], err: errFake})
		}
		return out
	}
	f.settle = func([]decision) (settlement, error) { return settlement{}, nil }
	config.Logger = slog.New(slog.DiscardHandler)
	r := &Relay{config: config.withDefaults(), reader: f, sender: fakeSender{f}, settler: fakeSettler{f}, leases: newLeases(nil, "me", time.Hour)}
	r.size = pageSize{r.config.BatchSize, r.config.BatchSize}
	r.leases.owned[1] = lease{part: 1, token: "t", until: time.Now().Add(1000 * time.Hour)}
	r.leases.nextBalance = time.Now().Add(1000 * time.Hour)
	never := time.Now().Add(1000 * time.Hour)
	return r, f, &loopState{nextDue: never, nextHeld: never, nextSweep: never}
}

func (r *Relay) mustPass(t *testing.T, st *loopState) passResult {
	t.Helper()
	res, err := r.pass(t.Context(), t.Context(), st)
	require.NoError(t, err)
	return res
}

func keys(n int) (out []item) {
	for i := range n {
		out = append(out, full(1, int64(i+1), string(rune('A'+i))))
	}
	return out
}

func TestAnOutageChargesNothingAndProbesChangingKeys(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{})
	f.items = keys(20)
	f.settle = func(d []decision) (settlement, error) {
		t.Errorf("%d outcomes of an outage are recorded", len(d))
		return settlement{}, nil
	}
	for range 4 {
		assert.Equal(t, 20, r.mustPass(t, st).found)
	}
	assert.Equal(t, 4, st.outage)
	require.Len(t, f.sent, 4)
	assert.Len(t, f.sent[0], 20)
	assert.Equal(t, [][]int64{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}, {17, 18, 19, 20, 1, 2, 3, 4}}, f.sent[1:])

	f.send = func(items []item) []outcome { return []outcome{{item: &items[0]}, {item: &items[1], err: errFake}} }
	f.settle = func([]decision) (settlement, error) { return settlement{}, nil }
	r.mustPass(t, st)
	assert.Zero(t, st.outage, "one success ends it")
}

func TestAnOutageEndsWhenNothingIsPendingAnyMore(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{})
	f.items = keys(1)
	r.mustPass(t, st)
	assert.Equal(t, 1, st.outage)
	f.items = nil
	r.mustPass(t, st)
	assert.Zero(t, st.outage, "or the next event would wait for nothing")
}

func TestAFullPageOfFewKeysIsSetAside(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys, batch int
		aside       bool
	}{
		"one key fills it":    {1, 1, true},
		"few keys fill it":    {probeKeys, probeKeys, true},
		"many keys fill it":   {probeKeys + 1, probeKeys + 1, false},
		"the page isn't full": {1, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f, st := newFake(Config{BatchSize: test.batch})
			f.items = keys(test.keys)
			var got []decision
			f.settle = func(d []decision) (settlement, error) { got = d; return settlement{}, nil }
			r.mustPass(t, st)
			if !test.aside {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, test.keys)
			for _, d := range got {
				assert.Equal(t, setAside, d.verdict)
				assert.Positive(t, d.after)
			}
		})
	}
}

// What the publisher itself says about the broker is nothing about an event.
func TestAnOutageThatIsKnownSetsNothingAside(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{BatchSize: 1, Classify: func(error) Class { return Outage }})
	f.items = keys(1)
	f.settle = func(d []decision) (settlement, error) {
		t.Errorf("%d outcomes of an outage are recorded", len(d))
		return settlement{}, nil
	}
	for range 3 {
		r.mustPass(t, st)
	}
	assert.Equal(t, 3, st.outage)
}

// A head that was due got through while the page did not: the broker comes back.
func TestSettingAsideBesideASuccess(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{BatchSize: probeKeys})
	f.items = keys(probeKeys)
	due := full(1, 100, "due")
	f.send = func(items []item) []outcome {
		out := []outcome{{item: &due}}
		for i := range items {
			out = append(out, outcome{item: &items[i], err: errFake, others: true})
		}
		return out
	}
	verdicts := map[verdict]int{}
	f.settle = func(d []decision) (settlement, error) {
		for _, d := range d {
			verdicts[d.verdict]++
		}
		return settlement{}, nil
	}
	r.mustPass(t, st)
	assert.Equal(t, map[verdict]int{published: 1, setAside: probeKeys}, verdicts)
	assert.Equal(t, 1, st.outage)
}

func TestJudging(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		class    Class
		policy   ParkPolicy
		others   bool
		attempts int
		charged  bool
		verdict  verdict
	}{
		"unknown beside others":   {class: Unknown, others: true, charged: true, verdict: retryLater},
		"unknown alone":           {class: Unknown},
		"no class at all":         {class: 99},
		"outage beside others":    {class: Outage, others: true},
		"retryable":               {class: Retryable, charged: true, verdict: retryLater},
		"last attempt":            {class: Retryable, attempts: 9, charged: true, verdict: park},
		"one before":              {class: Retryable, attempts: 8, charged: true, verdict: retryLater},
		"permanent":               {class: Permanent, charged: true, verdict: park},
		"block after the budget":  {class: Retryable, policy: Block, attempts: 99, charged: true, verdict: retryLater},
		"block permanent":         {class: Permanent, policy: Block, charged: true, verdict: retryLater},
		"outage after the budget": {class: Outage, attempts: 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, _ := newFake(Config{Park: test.policy, Classify: func(error) Class { return test.class }})
			it := full(1, 1, "k")
			it.Attempts = test.attempts
			d, charged := r.judge(outcome{item: &it, err: errFake, others: test.others})
			assert.Equal(t, test.charged, charged)
			if charged {
				assert.Equal(t, test.verdict, d.verdict)
				assert.Equal(t, errFake.Error(), d.err)
			}
			if test.policy == Block {
				assert.Equal(t, time.Minute, d.after)
			}
		})
	}
}

func TestAPanicOfClassifySaysNothing(t *testing.T) {
	t.Parallel()
	r, _, _ := newFake(Config{Classify: func(error) Class { panic("oh") }})
	assert.Equal(t, Unknown, r.classify(errFake))
}

func TestOutcomesAreOfferedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, f, st := newFake(Config{})
		f.items = keys(1)
		f.send = func(items []item) []outcome { return []outcome{{item: &items[0]}} }
		tries := 0
		f.settle = func(d []decision) (settlement, error) {
			if tries++; tries < settleTries {
				return settlement{}, errFake
			}
			return settlement{done: map[int64]bool{d[0].item.Seq: true}}, nil
		}
		r.mustPass(t, st)
		assert.Equal(t, settleTries, tries)
		require.Len(t, f.seen, 1)
		assert.True(t, f.seen[0].done[1])
	})
}

// TestASettlementThatMayHaveHappened: if the hold is gone and the mark has not fallen back, the
// events behind the head are lost.
func TestASettlementThatMayHaveHappened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, f, st := newFake(Config{})
		f.items = keys(1)
		f.items[0].head, f.items[0].Seq = true, 50
		f.send = func(items []item) []outcome { return []outcome{{item: &items[0]}} }
		f.settle = func([]decision) (settlement, error) { return settlement{}, errFake }
		_, err := r.pass(t.Context(), t.Context(), st)
		require.ErrorIs(t, err, errFake)
		assert.Equal(t, map[int]int64{1: 50}, f.fallen)
		assert.Empty(t, f.seen)
	})
}

func TestOutcomesAreRecordedAfterTheEnd(t *testing.T) {
	t.Parallel()
	r, f, st := newFake(Config{})
	f.items = keys(1)
	ctx, cancel := context.WithCancel(t.Context())
	f.send = func(items []item) []outcome { cancel(); return []outcome{{item: &items[0]}} }
	recorded := 0
	r.settler = settlerFunc(func(ctx context.Context, d []decision) (settlement, error) {
		recorded = len(d)
		return settlement{}, ctx.Err()
	})
	_, err := r.pass(ctx, ctx, st)
	require.NoError(t, err)
	assert.Equal(t, 1, recorded)
}

type settlerFunc func(context.Context, []decision) (settlement, error)

func (f settlerFunc) settle(ctx context.Context, _ []lease, d []decision) (settlement, error) {
	return f(ctx, d)
}

func TestADelayedEventWaitsForItsPlaceInAFullPage(t *testing.T) {
	t.Parallel()
	p := page{covered: map[int]int64{1: 10}}
	for name, test := range map[string]struct {
		it   item
		want bool
	}{
		"reached":              {at(1, 10, "k"), true},
		"not yet":              {at(1, 11, "k"), false},
		"partition not read":   {at(2, 1, "k"), false},
		"a head":               {item{Record: at(1, 11, "k").Record, head: true}, true},
		"without an aggregate": {item{}, true},
	} {
		assert.Equal(t, test.want, test.it.hasPlace(p), name)
	}
}

// TestALoopThatMustNotGoOn: others should have the partitions.
func TestALoopThatMustNotGoOn(t *testing.T) {
	t.Parallel()
	_, r := migrated(t, testenv.SQLite(t), Config{})
	f := &fakes{readErr: fmt.Errorf("looking: %w", ErrReadUncommitted)}
	r.reader = f
	require.ErrorIs(t, r.Run(t.Context()), ErrReadUncommitted)
	assert.Len(t, f.reads, 1)
}
