//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// settleTime is how long everything that was pending at the end of a fault may take to be published.
const settleTime = 90 * time.Second

// stepsBetweenCatchUps is how often consumers must come to the end of what there is, beside writers that go on.
const stepsBetweenCatchUps = 10

// step is one fault, or two at the same time, with what came of it.
type step struct {
	relaytest.Window

	kinds []kind
	// recovery is how long it took from the end of the fault until what was pending then had been published.
	recovery   time.Duration
	duplicates int
}

// run does everything and returns a result if there is one. It leaves nothing behind but the folder, if that may be of use.
func run(ctx context.Context, o options) (*result, error) {
	kinds, err := kindsFor(o)
	if err != nil {
		return nil, err
	}
	h, err := newHarness(ctx, o, kinds)
	var r *result
	if err == nil {
		r, err = h.run(ctx, kinds)
	}
	h.close()
	if h.folder != "" {
		if err != nil || r.err() != nil || o.keep {
			h.say("the logs are in %s", h.folder)
		} else {
			err = os.RemoveAll(h.folder)
		}
	}
	return r, err
}

func (h *harness) run(ctx context.Context, kinds []kind) (*result, error) {
	h.say("seed %d, %s, logs in %s", h.seed, h.options.database, h.folder)
	random := rand.New(rand.NewPCG(h.seed, 1)) //nolint:gosec // the seed decides
	for i := range processes {
		if err := h.startWriter(i, random.Uint64()); err != nil {
			return nil, err
		}
	}
	for _, t := range []*team{&h.relays, &h.consumers} {
		if err := t.startAlways(); err != nil {
			return nil, err
		}
	}
	held, release := context.WithCancel(ctx)
	defer release()
	var wg sync.WaitGroup
	wg.Go(func() { h.holdSnapshot(held) })
	defer wg.Wait()
	defer release()

	begin := time.Now()
	if err := until(ctx, 100*time.Millisecond, h.someDelivered); err != nil {
		return nil, err
	}
	steps := []step{h.calm(ctx, "start", begin)}
	left, deck := h.faults, []kind(nil)
	for left > 0 && time.Since(begin) < h.limit && ctx.Err() == nil && h.fine() {
		next := draw(random, kinds, &deck, left)
		left -= len(next)
		steps = append(steps, h.step(ctx, random, next))
		if h.options.consumers > 0 && len(steps)%stepsBetweenCatchUps == 0 {
			h.catchUp(ctx)
		}
	}
	if ctx.Err() == nil {
		steps = append(steps, h.finish(ctx))
	}
	release()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stopped: %w", err)
	}
	return h.judge(steps, time.Since(begin))
}

// fine says whether going on makes sense.
func (h *harness) fine() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.wrong, func(err error) bool {
		stalled, lag := (*stalledError)(nil), (*lagError)(nil)
		return errors.As(err, &stalled) || errors.As(err, &lag)
	})
}

func (h *harness) someDelivered() error {
	if h.published.count() == 0 {
		return errors.New("nothing has arrived")
	}
	return nil
}

// draw takes the next kind from a shuffled deck, or two at a time that are both like crashes.
func draw(random *rand.Rand, kinds []kind, deck *[]kind, left int) []kind {
	take := func() kind {
		if len(*deck) == 0 {
			*deck = slices.Clone(kinds)
			random.Shuffle(len(kinds), func(i, j int) { (*deck)[i], (*deck)[j] = (*deck)[j], (*deck)[i] })
		}
		k := (*deck)[0]
		*deck = (*deck)[1:]
		return k
	}
	next := []kind{take()}
	if left > 1 && random.IntN(4) == 0 && next[0].cause == relaytest.Crash && len(*deck) > 0 && (*deck)[0].cause == relaytest.Crash {
		next = append(next, take())
	}
	return next
}

// step lets faults happen and waits until they are over.
func (h *harness) step(ctx context.Context, random *rand.Rand, kinds []kind) step {
	s := step{kinds: kinds, Window: relaytest.Window{Cause: kinds[0].cause, From: time.Now()}}
	var wg sync.WaitGroup
	for i, k := range kinds {
		if i > 0 {
			s.Name += " + "
		}
		s.Name += k.name
		own := rand.New(rand.NewPCG(random.Uint64(), 2)) //nolint:gosec // the seed decides
		wg.Go(func() {
			if err := k.happen(ctx, h, own); err != nil && ctx.Err() == nil {
				h.blame(fmt.Errorf("%s: %w", k.name, err))
			}
		})
	}
	wg.Wait()
	return h.settle(ctx, s)
}

// calm is a step in which nothing fails.
func (h *harness) calm(ctx context.Context, name string, begin time.Time) step {
	return h.settle(ctx, step{Window: relaytest.Window{Name: name, Cause: relaytest.Graceful, From: begin}})
}

// settle waits until all that is pending now has been published, and a lease longer, in which a publish that
// somebody began before may arrive.
func (h *harness) settle(ctx context.Context, s step) step {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := h.drained(limited); err != nil && ctx.Err() == nil {
		pending := int64(-1)
		_ = h.gorm.Raw("SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL").Scan(&pending)
		h.lookAfter(s.Name)
		h.blame(errors.Join(&stalledError{s.Name, pending}, err))
	}
	s.recovery = time.Since(begin)
	wait(ctx, h.lease)
	h.lookAfter(s.Name)
	s.To = time.Now()
	h.say("%-40s %6.1fs, recovered in %.1fs, %d records", s.Name, begin.Sub(s.From).Seconds(), s.recovery.Seconds(), h.published.count())
	return s
}

var errPending = errors.New("events are pending")

// drained returns when nothing is pending of what is in the outbox now.
func (h *harness) drained(ctx context.Context) error {
	var mark int64
	err := until(ctx, 100*time.Millisecond, func() error {
		return h.gorm.WithContext(ctx).Raw("SELECT COALESCE(MAX(seq), 0) FROM outbox_events").Scan(&mark).Error
	})
	if err != nil {
		return err
	}
	return until(ctx, 250*time.Millisecond, func() error {
		var n int64
		err := h.gorm.WithContext(ctx).Raw("SELECT COUNT(*) FROM (SELECT 1 FROM outbox_events WHERE seq <= ? AND processed_at IS NULL LIMIT 1) p", mark).Scan(&n).Error
		if err == nil && n > 0 {
			err = errPending
		}
		return err
	})
}

// catchUp waits until the consumers have handled what is there now.
func (h *harness) catchUp(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	begin := time.Now()
	if err := h.consumed(limited); err != nil && ctx.Err() == nil {
		h.blame(&lagError{err})
	}
	h.say("consumers have caught up in %.1fs", time.Since(begin).Seconds())
}

// finish ends the writers, waits until consumers have handled everything and the outbox is empty, ends all, and reads what is left.
func (h *harness) finish(ctx context.Context) step {
	s := step{Window: relaytest.Window{Name: "end", Cause: relaytest.Graceful, From: time.Now()}}
	for i, p := range h.writers {
		if err := p.end(syscall.SIGTERM, time.Minute); err != nil {
			h.blame(&exitError{p.name, err.Error()})
		}
		h.writers[i] = nil
	}
	s = h.settle(ctx, s)
	if h.options.consumers > 0 {
		h.catchUp(ctx)
	}
	for _, t := range []*team{&h.consumers, &h.relays} {
		for i := range t.slots {
			h.blame(t.stop(i))
		}
	}
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for _, r := range []*reader{h.published, h.reserved, h.poisoned} {
		if err := r.catchUp(limited); err != nil {
			h.blame(fmt.Errorf("reading the rest of %s: %w", r.topic, err))
		}
	}
	s.To = time.Now()
	return s
}
