package relay

import (
	"sync"
	"time"
)

// Health is what a relay knows of itself.
type Health struct {
	// Running says that Run, or Drain, has begun its work and has not ended it.
	Running bool
	// Partitions is how many it owned at its last pass. None means that others have them all, or that there was no pass yet.
	Partitions int
	// LastPass is when it last looked for events without an error of the database, by the clock of the process.
	LastPass time.Time
	// Outage says that the broker seems to be away: nothing is charged to events, and a few are tried now and then.
	Outage bool
	// LastError is the last error that it went on after, and LastErrorAt when that was.
	LastError   error
	LastErrorAt time.Time
	// Published is how many events it has published and settled, Failed how many attempts were charged to events.
	Published, Failed int64
}

// Health returns the state of the relay. It asks neither the database nor the broker, and is safe for concurrent use.
func (r *Relay) Health() Health {
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	return r.health.state
}

type health struct {
	mu    sync.Mutex
	state Health
}

func (h *health) running(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Running = on
}

func (h *health) passed(_ passResult, err error, outage bool, partitions int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Outage, h.state.Partitions = outage, partitions
	if err == nil {
		h.state.LastPass = time.Now()
	}
}

func (h *health) charge(published, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Published += int64(published)
	h.state.Failed += int64(failed)
}

// noticed keeps an error and tells it to Config.OnError.
func (r *Relay) noticed(err error) {
	if err == nil {
		return
	}
	r.health.mu.Lock()
	r.health.state.LastError, r.health.state.LastErrorAt = err, time.Now()
	r.health.mu.Unlock()
	if r.config.OnError == nil {
		return
	}
	defer func() {
		_ = recover() // the callback's own affair
	}()
	r.config.OnError(err)
}
