package relay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gormoutbox/outbox/internal/pause"
	"github.com/gormoutbox/outbox/watermilladapter"
)

const (
	// maxDatabasePause bounds the pause while the database is away.
	maxDatabasePause = 5 * time.Second
	// maxOutagePause bounds the pause while the broker is away.
	maxOutagePause = 5 * time.Second
	// duePause is the pause between two looks for held heads and delayed events.
	duePause = 50 * time.Millisecond
	// pendingWindow is how long the poll stays fast after a write whose commit is not seen.
	pendingWindow = time.Second
	// probeKeys is how many aggregates are tried while the broker is away.
	probeKeys = 8
)

// loopState is what the loop remembers between passes.
type loopState struct {
	failures int // passes in a row that the database failed
	outage   int // passes in a row in which nothing was published and nothing could be charged
	probe    int // rotates the aggregates that are tried during an outage
	nextDue  time.Time
	nextHeld time.Time
	// nextSweep is when to look below the low marks again, sweep how far that has come.
	nextSweep time.Time
	sweep     sweeping
}

// passResult says how the loop goes on.
type passResult struct {
	found     int
	published int
	// more says that there is more to look at, although nothing may have been found.
	more bool
}

// loop makes passes until ctx ends and waits in between. work outlives ctx. It returns an error after which others should have the partitions.
func (r *Relay) loop(ctx, work context.Context, idle func(context.Context)) error {
	// Partitions change hands at a third of a lease, for which the loop must be awake.
	longest := r.config.Lease / 3
	p := newPacer(min(r.config.MinPoll, longest), min(r.config.MaxPoll, longest))
	p.signal = r.config.Wake
	if r.wake != nil {
		sub := r.wake.Subscribe()
		defer sub.Close()
		p.committed, p.pending = sub.Committed(), sub.Pending()
	}
	var st loopState
	for ctx.Err() == nil && work.Err() == nil {
		res, err := r.pass(ctx, work, &st)
		r.health.passed(res, err, st.outage > 0, len(r.leases.current()))
		if err == nil && res.found == 0 && !res.more && idle != nil {
			idle(ctx)
		}
		switch {
		case errors.Is(err, ErrReadUncommitted):
			r.log(ctx, slog.LevelError, "relay ends", err)
			return err
		case err != nil:
			if ctx.Err() == nil {
				r.log(ctx, slog.LevelError, "relay pass failed; it goes on", err)
			}
			st.failures++
			pause.Sleep(ctx, pause.Backoff(r.config.MinBackoff, maxDatabasePause, st.failures))
		case st.outage > 0:
			st.failures = 0
			pause.Sleep(ctx, pause.Backoff(r.config.MinBackoff, max(maxOutagePause, r.config.MinBackoff), st.outage))
		default:
			st.failures = 0
			p.wait(ctx, res.found > 0 || res.more)
		}
	}
	return nil
}

// pass reads one page, publishes it and records the outcomes. It is the loop's one
// step, and everything that changes hands between relays does so at its begin.
func (r *Relay) pass(ctx, work context.Context, st *loopState) (passResult, error) {
	if err := r.leases.balance(work, r.reader.low); err != nil {
		return passResult{}, err
	}
	owned := r.leases.current()
	if len(owned) == 0 {
		st.outage = 0
		return passResult{}, nil
	}
	// Due events are read before the page, which then has all that stands before them.
	var due []item
	var err error
	if now := time.Now(); !now.Before(st.nextDue) {
		if due, err = r.store.due(ctx, owned, r.config.BatchSize); err != nil {
			return passResult{}, err
		}
		st.nextDue = now.Add(duePause)
	}
	late, err := r.swept(ctx, st, owned)
	if err != nil {
		return passResult{}, err
	}
	p, err := r.reader.read(ctx, owned, r.size.now)
	if err != nil {
		return passResult{}, err
	}
	r.size.saw(p, r.config.BatchBytes)
	items := make([]item, 0, len(due)+len(late)+len(p.items))
	var decisions []decision
	for i := range due {
		switch {
		case due[i].request == requestSkip:
			decisions = append(decisions, decision{item: &due[i], verdict: skip})
		case due[i].hasPlace(p):
			items = append(items, due[i])
		default:
			st.nextDue = time.Time{}
		}
	}
	items = append(items, p.with(late)...)
	if now := time.Now(); !now.Before(st.nextHeld) {
		released, err := r.abandoned(ctx, owned)
		if err != nil {
			return passResult{}, err
		}
		decisions = append(decisions, released...)
		st.nextHeld = now.Add(r.config.Lease / 3)
	}
	found := len(items)
	if st.outage > 0 {
		items = st.probes(items)
	}
	outcomes := r.sender.send(work, ctx.Done(), items)
	decided, done := r.decide(ctx, st, outcomes)
	decisions = append(decisions, decided...)
	if st.outage > 0 && p.full && len(byKey(p.items)) <= probeKeys {
		decisions = append(decisions, r.asides(st, outcomes)...)
	}
	var s settlement
	if len(decisions) > 0 {
		if s, err = r.settle(ctx, owned, decisions); err != nil {
			// It may have been committed all the same, and then keys are released.
			for _, d := range decisions {
				if d.item.head {
					r.reader.fallBack(d.item.Part, d.item.Seq)
				}
			}
			return passResult{}, err
		}
		r.leases.drop(s.lost)
	}
	onward := r.reader.settled(p, s)
	r.health.charge(done, len(decided)-done)
	res := passResult{found: found, published: done, more: p.endsEarly()}
	if onward && done == found {
		n, err := r.stream(ctx, work, st, owned, p)
		res.found, res.published = res.found+n, res.published+n
		return res, err
	}
	return res, nil
}

// settleTries is how often outcomes are offered to the database before the relay gives up and, with
// its leases run out or its next pass, publishes the events again.
const settleTries = 5

// settle records decisions, even if ctx has ended and again if the database fails: what is
// published must not be published again. After ctx has ended it gives up at the shutdown timeout.
func (r *Relay) settle(ctx context.Context, owned []lease, decisions []decision) (settlement, error) {
	begin := time.Now()
	after := context.WithoutCancel(ctx)
	for n := 1; ; n++ {
		try, cancel := context.WithTimeout(after, r.config.ShutdownTimeout)
		s, err := r.settler.settle(try, owned, decisions)
		cancel()
		if err == nil || n == settleTries || (ctx.Err() != nil && time.Since(begin) >= r.config.ShutdownTimeout) {
			return s, err
		}
		r.log(ctx, slog.LevelError, "relay could not record what it published and tries again", err)
		pause.Sleep(after, pause.Backoff(r.config.MinBackoff, maxDatabasePause, n))
	}
}

// abandoned decides to release aggregates whose head is not pending any more.
func (r *Relay) abandoned(ctx context.Context, owned []lease) ([]decision, error) {
	orphans, err := r.store.orphans(ctx, owned)
	if err != nil {
		return nil, err
	}
	var out []decision
	for i := range orphans {
		out = append(out, decision{item: &orphans[i], verdict: release})
	}
	return out, nil
}

// decide turns outcomes into what is recorded, and notices an outage.
func (r *Relay) decide(ctx context.Context, st *loopState, outcomes []outcome) (decisions []decision, done int) {
	uncharged := 0
	var last error
	broken := r.broken(outcomes)
	for _, o := range outcomes {
		if o.err == nil {
			decisions = append(decisions, decision{item: o.item, verdict: published})
			done++
			continue
		}
		if broken {
			o.others = false // what does get through is luck
		}
		d, charged := r.judge(o)
		if !charged {
			uncharged++
			last = o.err
			continue
		}
		decisions = append(decisions, d)
		r.noticed(&PublishError{
			EventID: o.item.ID, EventType: o.item.EventType, AggregateType: o.item.AggregateType, AggregateID: o.item.AggregateID,
			Topic: watermilladapter.Topic(o.item.Record), Attempts: o.item.Attempts + 1, Parked: d.verdict == park, err: o.err,
		})
		r.config.Logger.LogAttrs(ctx, slog.LevelWarn, "relay could not publish an event",
			slog.String("relay", r.config.ID), slog.String("event_id", o.item.ID.String()), slog.String("event_type", o.item.EventType),
			slog.String("aggregate_type", o.item.AggregateType), slog.Int("attempts", o.item.Attempts+1),
			slog.Bool("parked", d.verdict == park), slog.Any("error", o.err))
	}
	if uncharged == 0 || done > 0 && !broken {
		st.outage = 0
	} else {
		st.outage++
		r.log(ctx, slog.LevelWarn, "relay can't publish; nothing is charged to the events while the broker seems away", last)
	}
	return decisions, done
}

// brokenKeys is from how many failing aggregates at once on the broker is to blame, if they are more than half of those tried.
const brokenKeys = 8

// broken says whether so many aggregates failed at once that it is the broker's fault, although some got through.
func (r *Relay) broken(outcomes []outcome) bool {
	failed, tried := 0, map[laneKey]struct{}{}
	for _, o := range outcomes {
		tried[o.item.key()] = struct{}{}
		if o.err != nil && r.classify(o.err) == Unknown {
			failed++
		}
	}
	return failed >= brokenKeys && failed*2 > len(tried)
}

// asides decides to let the aggregates wait that fill a whole page and can't be published: behind them
// others may stand that can, which would show that there is no outage. Nothing is charged.
func (r *Relay) asides(st *loopState, outcomes []outcome) (out []decision) {
	for _, o := range outcomes {
		if o.err == nil || r.classify(o.err) == Outage {
			continue // some get through while the broker comes back, and an outage is nothing about the event
		}
		o.others = false // as for decide
		if _, charged := r.judge(o); !charged {
			after := pause.Backoff(r.config.MinBackoff, max(maxOutagePause, r.config.MinBackoff), st.outage)
			out = append(out, decision{item: o.item, verdict: setAside, after: after, err: errorText(o.err)})
		}
	}
	return out
}

// judge says what becomes of a failed attempt, and whether it is charged to the event.
func (r *Relay) judge(o outcome) (d decision, charged bool) {
	d = decision{item: o.item, verdict: retryLater, err: errorText(o.err), policy: r.config.Park}
	attempts := o.item.Attempts + 1
	switch r.classify(o.err) {
	case Outage:
		return d, false
	case Permanent:
		d.verdict = park
	case Retryable:
	default:
		if !o.others {
			return d, false
		}
	}
	if attempts >= r.config.MaxAttempts {
		d.verdict = park
	}
	if d.verdict == park && r.config.Park == Block {
		d.verdict, d.after = retryLater, r.config.MaxBackoff
		return d, true
	}
	d.after = pause.Backoff(r.config.MinBackoff, r.config.MaxBackoff, attempts)
	return d, true
}

// classify asks the config; what no broker can mend is permanent by itself.
func (r *Relay) classify(err error) (class Class) {
	defer func() {
		if recover() != nil {
			class = Unknown // a panic of Classify is no news about the event
		}
	}()
	if isUnreadable(err) {
		return Permanent
	}
	return r.config.Classify(err)
}

// isUnreadable says whether the row itself can't be turned into a message.
func isUnreadable(err error) bool {
	var e *watermilladapter.Error
	return errors.As(err, &e)
}

// probes chooses the heads of a few aggregates, other ones each time.
func (st *loopState) probes(items []item) []item {
	lanes := byKey(items)
	n := min(probeKeys, len(lanes))
	out := make([]item, 0, n)
	for i := range n {
		out = append(out, *lanes[(st.probe+i)%len(lanes)][0])
	}
	st.probe += n
	return out
}
