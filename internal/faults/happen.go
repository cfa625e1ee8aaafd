//go:build linux

package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

// between is a random time.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// take reserves a random relay that always runs, so that two faults do not have the same one; -1 if there is none.
func (h *harness) take(random *rand.Rand) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range random.Perm(relays) {
		if !h.relays[i].busy {
			h.relays[i].busy = true
			return i
		}
	}
	return -1
}

func (h *harness) giveBack(slot int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.relays[slot].busy = false
}

var errNoRelay = errors.New("every relay is busy with a fault")

func killRelay(ctx context.Context, h *harness, random *rand.Rand) error {
	slot := h.take(random)
	if slot < 0 {
		return errNoRelay
	}
	defer h.giveBack(slot)
	h.relays[slot].process.kill()
	wait(ctx, between(random, 0, 2*h.lease))
	return h.startRelay(slot)
}

func freezeRelay(ctx context.Context, h *harness, random *rand.Rand) error {
	slot := h.take(random)
	if slot < 0 {
		return errNoRelay
	}
	defer h.giveBack(slot)
	process := h.relays[slot].process
	process.signal(syscall.SIGSTOP)
	wait(ctx, 3*h.lease)
	process.signal(syscall.SIGCONT)
	return nil
}

// restartRelays is a rolling restart.
func restartRelays(ctx context.Context, h *harness, random *rand.Rand) error {
	for _, slot := range random.Perm(relays) {
		if err := h.stopRelay(slot); err != nil {
			return err
		}
		if err := h.startRelay(slot); err != nil {
			return err
		}
		wait(ctx, between(random, 0, h.lease))
	}
	return nil
}

// joinRelay has one or two more relays for a while.
func joinRelay(ctx context.Context, h *harness, random *rand.Rand) error {
	more := 1 + random.IntN(slots-relays)
	for slot := relays; slot < relays+more; slot++ {
		if err := h.startRelay(slot); err != nil {
			return err
		}
	}
	wait(ctx, between(random, h.lease/2, 3*h.lease))
	for slot := relays; slot < relays+more; slot++ {
		if err := h.stopRelay(slot); err != nil {
			return err
		}
	}
	return nil
}

func killWriters(_ context.Context, h *harness, random *rand.Rand) error {
	process := random.IntN(processes)
	h.writers[process].kill()
	return h.startWriter(process, random.Uint64())
}

func killDatabase(ctx context.Context, h *harness, random *rand.Rand) error {
	h.db.stop()
	wait(ctx, between(random, 0, 2*h.lease))
	return h.db.start(ctx)
}

func killKafka(ctx context.Context, h *harness, random *rand.Rand) error {
	h.kafka.stop()
	wait(ctx, between(random, 0, 2*h.lease))
	return h.kafka.start(ctx)
}

// killSessions ends half of the sessions, of relays, writers and others.
func killSessions(ctx context.Context, h *harness, random *rand.Rand) error {
	for range 1 + random.IntN(3) {
		var sessions []int64
		if err := h.gorm.WithContext(ctx).Raw(h.database.sessions()).Scan(&sessions).Error; err != nil {
			return nil //nolint:nilerr // the database itself may be away in another fault
		}
		for _, s := range sessions {
			if random.IntN(2) == 0 {
				_ = h.gorm.WithContext(ctx).Exec(h.database.terminate(s)) // it may have ended by itself
			}
		}
		wait(ctx, between(random, 0, time.Second))
	}
	return nil
}

func viaKafka(s *relaySlot) *proxy { return s.kafka }

func viaDatabase(s *relaySlot) *proxy { return s.database }

func cutOff(*rand.Rand) trouble { return trouble{cut: true} }

func silence(*rand.Rand) trouble { return trouble{hole: true} }

func delays(random *rand.Rand) trouble {
	return trouble{delay: between(random, 5*time.Millisecond, 50*time.Millisecond)}
}

// onProxies makes trouble for all relays or for one.
func onProxies(which func(*relaySlot) *proxy, what func(*rand.Rand) trouble) func(context.Context, *harness, *rand.Rand) error {
	return func(ctx context.Context, h *harness, random *rand.Rand) error {
		first, last := 0, slots-1
		if random.IntN(2) == 0 {
			first = random.IntN(relays)
			last = first
		}
		t := what(random)
		for i := first; i <= last; i++ {
			which(&h.relays[i]).set(t)
		}
		wait(ctx, between(random, h.lease/2, 5*h.lease/2))
		if t.hole && random.IntN(2) == 0 {
			t = trouble{cut: true} // what was held back is lost
			for i := first; i <= last; i++ {
				which(&h.relays[i]).set(t)
			}
		}
		for i := first; i <= last; i++ {
			which(&h.relays[i]).set(trouble{})
		}
		return nil
	}
}

// holdSnapshot keeps a snapshot open until ctx ends, a new one when its session was killed.
func (h *harness) holdSnapshot(ctx context.Context) {
	pool, err := h.gorm.DB()
	if err != nil {
		h.blame(err)
		return
	}
	for ctx.Err() == nil {
		conn, err := pool.Conn(ctx)
		for _, statement := range h.database.snapshot() {
			if err == nil {
				_, err = conn.ExecContext(ctx, statement)
			}
		}
		for err == nil {
			wait(ctx, 200*time.Millisecond)
			_, err = conn.ExecContext(ctx, "SELECT 1")
		}
		if conn != nil {
			// A session in a transaction must not go back into the pool.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			conn.Close()
		}
		wait(ctx, 100*time.Millisecond)
	}
}
