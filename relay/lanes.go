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
	// valid says whether the partition is still leased.
	valid func(part int) bool
	// successes counts published events, to tell a poison from an outage.
	successes atomic.Int64
}

var _ sender = (*lanes)(nil)

// send implements sender. ctx ends when publishes in flight are given up: what
// has ended by then is returned, and the goroutines of the rest end with their Publish.
func (l *lanes) send(ctx context.Context, stop <-chan struct{}, items []item) []outcome {
	queue := byKey(items)
	r := &results{}
	next := make(chan []*item, len(queue))
	for _, lane := range queue {
		next <- lane
	}
	close(next)

	var wg sync.WaitGroup
	for range min(l.workers, len(queue)) {
		wg.Go(func() {
			for lane := range next {
				l.run(ctx, stop, lane, r)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return r.take(l.successes.Load())
}

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

func (l *lanes) run(ctx context.Context, stop <-chan struct{}, lane []*item, r *results) {
	for _, it := range lane {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		if !l.valid(it.Part) {
			return
		}
		before := l.successes.Load()
		begin := time.Now()
		err := l.publish(ctx, it)
		if err == nil {
			l.successes.Add(1)
		}
		r.add(attempt{outcome{item: it, err: err, took: time.Since(begin)}, before})
		if err != nil {
			return
		}
	}
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
	msg.SetContext(ctx)
	return l.publisher.Publish(watermilladapter.Topic(it.Record), msg)
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
