package relay

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// walker is a reader with a walk of pages of one event each.
type walker struct {
	*fakes
	pages int
	// ahead gets the number of each page that is asked for, before it is read.
	ahead chan int
	// moved has the pages by which the low marks moved.
	moved []int
	fail  int
}

func (w *walker) page(nth int) page {
	p := page{
		items: []item{full(1, int64(nth+1), "k")}, covered: map[int]int64{1: int64(nth + 1)}, full: nth+1 < w.pages,
		walk: &walk{high: int64(w.pages)}, nth: nth,
	}
	if p.full {
		p.rest = []place{{seq: int64(nth + 1)}}
	}
	return p
}

func (w *walker) read(context.Context, []lease, int) (page, error) { return w.page(0), nil }

func (w *walker) next(_ context.Context, _ []lease, behind page, _ int) (page, error) {
	w.ahead <- behind.nth + 1
	if w.fail > 0 && behind.nth+1 == w.fail {
		return page{}, errFake
	}
	return w.page(behind.nth + 1), nil
}

func (w *walker) settled(p page, s settlement) bool {
	w.moved = append(w.moved, p.nth)
	return p.goesOn() && s.done[p.items[0].Seq] && len(s.released) == 0
}

// newWalk is a relay over a walk of so many pages. Settlements are told on the channel before they are made.
func newWalk(pages int) (*Relay, *walker, *loopState, chan int64) {
	r, f, st := newFake(Config{})
	w := &walker{fakes: f, pages: pages, ahead: make(chan int, pages)}
	r.reader = w
	f.send = func(items []item) []outcome { return []outcome{{item: &items[0]}} }
	settling := make(chan int64, pages)
	f.settle = func(d []decision) (settlement, error) {
		settling <- d[0].item.Seq
		return settlement{done: map[int64]bool{d[0].item.Seq: true}}, nil
	}
	return r, w, st, settling
}

func TestAWalkGoesOnInOnePass(t *testing.T) {
	t.Parallel()
	r, w, st, settling := newWalk(5)
	res := r.mustPass(t, st)
	assert.Equal(t, passResult{found: 5, published: 5}, res)
	assert.Equal(t, [][]int64{{1}, {2}, {3}, {4}, {5}}, w.sent)
	assert.Equal(t, []int{0, 1, 2, 3, 4}, w.moved, "in order")
	assert.Len(t, settling, 5)
	assert.EqualValues(t, 5, r.health.state.Published)
}

// TestWhatRunsAtTheSameTime: while a page is published, the next one is read and the last one recorded. Each of the three waits for the others here.
func TestWhatRunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	r, w, st, settling := newWalk(4)
	publishing := make(chan struct{})
	record := w.settle
	w.settle = func(d []decision) (settlement, error) {
		if d[0].item.Seq == 2 {
			<-publishing // the third page, while the second is recorded
		}
		return record(d)
	}
	w.send = func(items []item) []outcome {
		if items[0].Seq == 3 {
			for n := range w.ahead {
				if n == 3 {
					break // the fourth page is read
				}
			}
			publishing <- struct{}{}
		}
		return []outcome{{item: &items[0]}}
	}
	assert.Equal(t, passResult{found: 4, published: 4}, r.mustPass(t, st))
	assert.Len(t, settling, 4)
}

func TestAPageBehindAFailureIsDropped(t *testing.T) {
	t.Parallel()
	r, w, st, settling := newWalk(5)
	w.send = func(items []item) []outcome {
		if items[0].Seq == 3 {
			return []outcome{{item: &items[0], err: errFake}}
		}
		return []outcome{{item: &items[0]}}
	}
	assert.Equal(t, passResult{found: 2, published: 2}, r.mustPass(t, st))
	assert.Equal(t, [][]int64{{1}, {2}, {3}}, w.sent, "the fourth was read and not published")
	assert.Equal(t, []int{0, 1}, w.moved)
	assert.Len(t, settling, 2)
}

func TestNothingIsReadAheadOfAFirstPageThatFailed(t *testing.T) {
	t.Parallel()
	r, w, st, _ := newWalk(5)
	w.send = func(items []item) []outcome { return []outcome{{item: &items[0], err: errFake}} }
	assert.Equal(t, passResult{found: 1, published: 0}, r.mustPass(t, st))
	assert.Empty(t, w.ahead)
}

// TestAWalkEndsAtARelease: what stands behind a head that went out was passed over.
func TestAWalkEndsAtARelease(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{1, 3} {
		r, w, st, _ := newWalk(6)
		w.settle = func(d []decision) (settlement, error) {
			s := settlement{done: map[int64]bool{d[0].item.Seq: true}}
			if d[0].item.Seq == at {
				s.released = map[int]int64{1: 1}
			}
			return s, nil
		}
		r.mustPass(t, st)
		if at == 1 {
			assert.Equal(t, [][]int64{{1}}, w.sent)
		} else {
			assert.Equal(t, [][]int64{{1}, {2}, {3}, {4}}, w.sent, "the fourth went out while the third was recorded")
		}
	}
}

// TestMarksStayBeforeAPageThatIsNotRecorded: the page behind it went out and is recorded, but the low marks would pass the other one.
func TestMarksStayBeforeAPageThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	r, w, st, _ := newWalk(5)
	r.config.MinBackoff = 1
	var recorded []int64
	w.settle = func(d []decision) (settlement, error) {
		if d[0].item.Seq == 2 {
			return settlement{}, errFake
		}
		recorded = append(recorded, d[0].item.Seq)
		return settlement{done: map[int64]bool{d[0].item.Seq: true}}, nil
	}
	_, err := r.pass(t.Context(), t.Context(), st)
	require.ErrorIs(t, err, errFake)
	assert.Equal(t, [][]int64{{1}, {2}, {3}}, w.sent)
	assert.Equal(t, []int64{1, 3}, recorded)
	assert.Equal(t, []int{0}, w.moved)
}

func TestAWalkEndsWhen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(r *Relay, w *walker, st *loopState){
		"partitions are to be shared": func(r *Relay, _ *walker, _ *loopState) { r.leases.nextBalance = r.leases.now() },
		"heads are looked for":        func(_ *Relay, _ *walker, st *loopState) { st.nextHeld = st.nextHeld.AddDate(-50, 0, 0) },
		"it is time for a sweep":      func(_ *Relay, _ *walker, st *loopState) { st.nextSweep = st.nextSweep.AddDate(-50, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, st, _ := newWalk(5)
			send := w.send
			w.send = func(items []item) []outcome {
				if items[0].Seq == 2 {
					test(r, w, st)
				}
				return send(items)
			}
			assert.Equal(t, 2, r.mustPass(t, st).published)
			assert.Equal(t, [][]int64{{1}, {2}}, w.sent)
		})
	}
}

func TestAReadAheadThatFails(t *testing.T) {
	t.Parallel()
	r, w, st, _ := newWalk(5)
	w.fail = 3
	res, err := r.pass(t.Context(), t.Context(), st)
	require.ErrorIs(t, err, errFake)
	assert.Equal(t, 3, res.published)
	assert.Equal(t, []int{0, 1, 2}, w.moved, "what went out is recorded")
}

func TestAWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, w, st, _ := newWalk(5)
	ctx, cancel := context.WithCancel(t.Context())
	send := w.send
	w.send = func(items []item) []outcome {
		if items[0].Seq == 2 {
			cancel()
		}
		return send(items)
	}
	_, err := r.pass(ctx, t.Context(), st)
	require.NoError(t, err)
	assert.Equal(t, [][]int64{{1}, {2}}, w.sent)
	assert.True(t, slices.Equal(w.moved, []int{0, 1}), "what went out is recorded: %v", w.moved)
}
