//go:build linux

package main

import (
	"context"
	"database/sql/driver"
	"math/rand/v2"
	"time"
)

// between is a random time.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
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

func viaKafka(s *slot) *proxy { return s.kafka }

func viaDatabase(s *slot) *proxy { return s.database }

func cutOff(*rand.Rand) trouble { return trouble{cut: true} }

func silence(*rand.Rand) trouble { return trouble{hole: true} }

func delays(random *rand.Rand) trouble {
	return trouble{delay: between(random, 5*time.Millisecond, 50*time.Millisecond)}
}

// onProxies makes trouble for all relays and consumers, for one relay, or for one consumer.
func onProxies(which func(*slot) *proxy, what func(*rand.Rand) trouble) happening {
	return func(ctx context.Context, h *harness, random *rand.Rand) error {
		var some []*proxy
		all := random.IntN(2) == 0
		teams := []*team{&h.relays, &h.consumers}
		if !all {
			teams = teams[random.IntN(2):][:1]
			if len(teams[0].slots) == 0 {
				teams[0] = &h.relays
			}
		}
		for _, t := range teams {
			if all {
				for i := range t.slots {
					some = append(some, which(&t.slots[i]))
				}
			} else {
				some = append(some, which(&t.slots[random.IntN(t.always)]))
			}
		}
		set := func(t trouble) {
			for _, p := range some {
				p.set(t)
			}
		}
		t := what(random)
		set(t)
		wait(ctx, between(random, h.lease/2, 5*h.lease/2))
		if t.hole && random.IntN(2) == 0 {
			set(trouble{cut: true}) // what was held back is lost
		}
		set(trouble{})
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
