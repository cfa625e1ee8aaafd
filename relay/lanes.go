package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/watermilladapter"
)

// lanes is a sender over any Watermill publisher: each aggregate is a lane whose
// events are published one by one, since an error of Publish does not say which of
// several messages went out; many lanes run at the same time.
type lanes struct {
	publisher message.Publisher
	workers   int
	// timeout is how long one Publish may take before its worker is left behind.
	timeout time.Duration
	// valid says whether the partition is still leased.
	valid func(part int) bool
	// successes counts published events, to tell a poison from an outage.
	successes atomic.Int64
	// hung are the workers that were left behind in a Publish that has not returned.
	hung hungWorkers
}

var _ sender = (*lanes)(nil)

// send implements sender. ctx ends when publishes in flight are given up: what
// has ended by then is returned, and the goroutines of the rest end with their Publish.
func (l *lanes) send(ctx context.Context, stop <-chan struct{}, items []item) []outcome {
	queue := byKey(items)
	if len(queue) == 0 {
		return nil
	}
	s := &sending{lanes: l, ctx: ctx, stop: stop, next: make(chan []*item, len(queue)), ended: make(chan *worker)}
	for _, lane := range queue {
		s.next <- lane
	}
	close(s.next)

	free := min(l.workers-l.hung.count(), len(queue))
	if free <= 0 {
		return []outcome{{item: queue[0][0], err: errHung}}
	}
	for range free {
		s.start()
	}
	s.watch()
	return s.results.take(l.successes.Load())
}

// sending is one call of send.
type sending struct {
	*lanes
	ctx     context.Context
	stop    <-chan struct{}
	next    chan []*item
	ended   chan *worker
	results results
	// running are the workers that are waited for.
	running map[*worker]struct{}
}

// worker publishes lanes, one event after the other.
type worker struct {
	mu    sync.Mutex
	item  *item // in Publish now, or nil
	since time.Time
	// before is how many events had been published when it began with this one.
	before int64
	left   bool // behind: nobody waits for it any more
}

// begin notes that the worker publishes an event now, unless ctx has ended: then nobody might look at the worker again.
func (w *worker) begin(ctx context.Context, it *item, before int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	w.item, w.since, w.before = it, time.Now(), before
	return true
}

func (s *sending) start() {
	w := &worker{}
	if s.running == nil {
		s.running = map[*worker]struct{}{}
	}
	s.running[w] = struct{}{}
	go func() {
		for lane := range s.next {
			if !s.run(w, lane) {
				return
			}
		}
		s.ended <- w
	}()
}

// watch waits for the workers. One whose Publish takes too long is left behind, and another takes its place.
func (s *sending) watch() {
	check := time.NewTicker(max(s.timeout/4, time.Millisecond))
	defer check.Stop()
	for len(s.running) > 0 {
		select {
		case w := <-s.ended:
			delete(s.running, w)
		case <-check.C:
			for w := range s.running {
				s.check(w, s.timeout)
			}
		case <-s.ctx.Done():
			for w := range s.running {
				s.check(w, 0)
			}
			// The others are between two events and see that ctx has ended.
			for len(s.running) > 0 {
				delete(s.running, <-s.ended)
			}
		}
	}
}

// check leaves a worker behind that has been in Publish for this long.
func (s *sending) check(w *worker, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.item == nil || time.Since(w.since) < limit {
		return
	}
	w.left = true
	s.hung.add()
	delete(s.running, w)
	if limit == 0 {
		return // given up: what it did is unknown and nobody asks
	}
	s.results.add(attempt{outcome{item: w.item, err: ErrPublishTimeout, took: time.Since(w.since)}, w.before})
	if len(s.next) > 0 && s.hung.count() < s.workers {
		s.start()
	}
}

// run publishes a lane up to its first failure. It says false if the worker was left behind meanwhile.
func (s *sending) run(w *worker, lane []*item) bool {
	for _, it := range lane {
		select {
		case <-s.stop:
			return true
		default:
		}
		if !s.valid(it.Part) || !w.begin(s.ctx, it, s.successes.Load()) {
			return true
		}
		begin, before := w.since, w.before // written by this goroutine alone
		err := s.publish(s.ctx, it)

		w.mu.Lock()
		w.item = nil
		left := w.left
		w.mu.Unlock()
		if err == nil {
			s.successes.Add(1)
		}
		if left {
			s.hung.done()
			return false
		}
		s.results.add(attempt{outcome{item: it, err: err, took: time.Since(begin)}, before})
		if err != nil {
			return true
		}
	}
	return true
}

func (l *lanes) publish(ctx context.Context, it *item) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	msg, err := watermilladapter.ToMessage(it.Record)
	if err != nil {
		return err
	}
	msg.SetContext(ctx) // not one that ends here: a consumer in this process may go on with it
	return l.publisher.Publish(watermilladapter.Topic(it.Record), msg)
}

// wait implements sender.
func (l *lanes) wait(ctx context.Context) bool { return l.hung.wait(ctx) }

// byKey groups items by aggregate, in the order in which each first appears.
func byKey(items []item) [][]*item {
	index := make(map[laneKey]int, len(items))
	var out [][]*item
	for i := range items {
		k := items[i].key()
		n, ok := index[k]
		if !ok {
			n = len(out)
			index[k] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], &items[i])
	}
	for _, lane := range out {
		// Delayed events are read apart and take their place when they are due.
		slices.SortFunc(lane, func(a, b *item) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return out
}

// hungWorkers counts goroutines in a Publish that nobody waits for any more.
type hungWorkers struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0; nil while nobody waits
}

func (h *hungWorkers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *hungWorkers) add() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
}

func (h *hungWorkers) done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 && h.none != nil {
		close(h.none)
		h.none = nil
	}
}

// wait says whether all have returned before ctx ends.
func (h *hungWorkers) wait(ctx context.Context) bool {
	h.mu.Lock()
	if h.n == 0 {
		h.mu.Unlock()
		return true
	}
	if h.none == nil {
		h.none = make(chan struct{})
	}
	none := h.none
	h.mu.Unlock()
	select {
	case <-none:
		return true
	case <-ctx.Done():
		return false
	}
}

type attempt struct {
	outcome
	before int64
}

// results gathers outcomes of lanes; after take it drops what comes late.
type results struct {
	mu    sync.Mutex
	all   []attempt
	taken bool
}

func (r *results) add(a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken {
		r.all = append(r.all, a)
	}
}

// take returns the outcomes. An attempt that failed saw others succeed if the
// count has grown since: its own lane ended with it.
func (r *results) take(successes int64) []outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = true
	out := make([]outcome, len(r.all))
	for i, a := range r.all {
		a.others = successes > a.before
		out[i] = a.outcome
	}
	return out
}
