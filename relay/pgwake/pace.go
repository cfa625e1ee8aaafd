package pgwake

import "time"

const (
	// pendingWindow is how long notifications are repeated after a write whose commit is not seen.
	pendingWindow = time.Second
	// pendingLow and pendingHigh bound the pause between the repetitions.
	pendingLow  = 5 * time.Millisecond
	pendingHigh = 50 * time.Millisecond
)

// pace decides when to notify.
type pace struct {
	interval time.Duration
	// dirty is whether something was committed that was not told.
	dirty bool
	// notBefore is the end of the pause after the last attempt.
	notBefore time.Time
	// repeat is when to tell of transactions whose commit is not seen, zero if there are none.
	repeat time.Time
	step   time.Duration
	until  time.Time
}

func (p *pace) committed() { p.dirty = true }

// pending does not notify at once, which would be before the commit.
func (p *pace) pending(now time.Time) {
	p.until = now.Add(pendingWindow)
	p.step = pendingLow
	// What is planned already is not put off, or a row of writes would do so for ever.
	if at := now.Add(p.step); p.repeat.IsZero() || at.Before(p.repeat) {
		p.repeat = at
	}
}

// due is the time of the next notification, false if there is nothing to tell.
func (p *pace) due() (time.Time, bool) {
	at := p.repeat
	if p.dirty || at.Before(p.notBefore) {
		at = p.notBefore
	}
	return at, p.dirty || !p.repeat.IsZero()
}

// sent is called after a notification that was begun at the given time.
func (p *pace) sent(begin time.Time) {
	p.dirty = false
	p.notBefore = begin.Add(p.interval)
	switch {
	case p.repeat.IsZero() || begin.Before(p.repeat):
	case begin.Before(p.until):
		p.step = min(2*p.step, pendingHigh)
		p.repeat = begin.Add(p.step)
	default:
		p.repeat = time.Time{}
	}
}

// failed puts off everything, which is then told together.
func (p *pace) failed(now time.Time, pause time.Duration) {
	p.dirty = true
	p.notBefore = now.Add(pause)
}
