package relay

import (
	"context"
	"time"
)

// stream goes on with a walk at full speed: while one page is published, the next one is read and the last one recorded. It ends with the
// walk, with the first page of which not everything was published, and when it is time for anything else that a pass does. It
// returns how many events were published.
//
// Nothing but success changes what may be read next, so a page that was read ahead is right as long as all before it went out; otherwise it is dropped.
func (r *Relay) stream(ctx, work context.Context, st *loopState, owned []lease, behind page) (n int, err error) {
	s := &streaming{relay: r, ctx: ctx, owned: owned}
	defer func() {
		s.drop()
		if e := s.record(); err == nil {
			err = e
		}
	}()
	s.readAhead(behind)
	for {
		p, err := s.taken()
		if err != nil || len(p.items) == 0 {
			return n, err
		}
		if stop, err := r.interrupts(ctx, st, owned, p); stop || err != nil {
			return n, err
		}
		if p.goesOn() {
			s.readAhead(p)
		}
		outcomes := r.sender.send(work, ctx.Done(), p.items)
		recorded := s.record()
		decisions, done := r.decide(ctx, st, outcomes)
		n += done
		r.health.charge(done, len(decisions)-done)
		s.settle(p, decisions, recorded == nil)
		if recorded != nil || s.over || done < len(p.items) || !p.goesOn() {
			return n, recorded
		}
	}
}

// interrupts says whether there is something to do that only a pass does, beside a page that is to be published.
func (r *Relay) interrupts(ctx context.Context, st *loopState, owned []lease, p page) (bool, error) {
	now := time.Now()
	if ctx.Err() != nil || r.leases.due() || !now.Before(st.nextHeld) || !now.Before(st.nextSweep) {
		return true, nil //nolint:nilerr // the loop ends with ctx
	}
	if now.Before(st.nextDue) {
		return false, nil
	}
	due, err := r.store.due(ctx, owned, r.config.BatchSize)
	if err != nil {
		return true, err
	}
	for i := range due {
		if due[i].hasPlace(p) {
			st.nextDue = time.Time{}
			return true, nil
		}
	}
	st.nextDue = now.Add(duePause)
	return false, nil
}

// streaming is one call of stream. Its two goroutines, a read and a settlement, are waited for before it returns.
type streaming struct {
	relay *Relay
	ctx   context.Context
	owned []lease
	// ahead brings the page that is being read, settling what became of the one that is being recorded; nil if there is none.
	ahead    chan ahead
	settling chan settled
	// over says that the walk does not go on behind the page that was recorded last.
	over bool
}

type ahead struct {
	page page
	err  error
}

type settled struct {
	page       page
	settlement settlement
	moves      bool
	err        error
}

func (s *streaming) readAhead(behind page) {
	c := make(chan ahead, 1)
	s.ahead = c
	limit := s.relay.size.now
	go func() {
		p, err := s.relay.reader.next(s.ctx, s.owned, behind, limit)
		c <- ahead{p, err}
	}()
}

// taken waits for the page that was read ahead.
func (s *streaming) taken() (page, error) {
	a := <-s.ahead
	s.ahead = nil
	if a.err != nil {
		return page{}, a.err
	}
	s.relay.size.saw(a.page, s.relay.config.BatchBytes)
	return a.page, nil
}

// drop waits for the page that was read ahead and forgets it.
func (s *streaming) drop() {
	if s.ahead != nil {
		<-s.ahead
		s.ahead = nil
	}
}

// settle records a page. The low marks may move by it only if the one before it is recorded, since it begins behind that one.
func (s *streaming) settle(p page, decisions []decision, moves bool) {
	if len(decisions) == 0 {
		return // nothing was attempted
	}
	c := make(chan settled, 1)
	s.settling = c
	go func() {
		out, err := s.relay.settle(s.ctx, s.owned, decisions)
		c <- settled{p, out, moves, err}
	}()
}

// record waits until the last page is recorded and moves the low marks.
func (s *streaming) record() error {
	if s.settling == nil {
		return nil
	}
	done := <-s.settling
	s.settling = nil
	if done.err != nil {
		return done.err
	}
	s.relay.leases.drop(done.settlement.lost)
	if done.moves && !s.relay.reader.settled(done.page, done.settlement) {
		s.over = true
	}
	return nil
}
