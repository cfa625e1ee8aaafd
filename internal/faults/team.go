//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// team is a number of processes that stand in for each other, the relays or the consumers.
type team struct {
	name   string
	always int    // so many always run; further slots are for those that join
	slots  []slot // none if there is no such team
	// role is what the process in a slot is told, under a new name.
	role func(i int, name string) role
	log  func(name string) string

	mu sync.Mutex
}

// slot is a place for a process, with its ways to the servers.
type slot struct {
	database, kafka *proxy
	process         *child
	starts          int
	clock           time.Duration // by how much that of its process is wrong
	busy            bool          // some fault has it
}

// take reserves a random slot of those that always run, so that two faults do not have the same one; -1 if there is none.
func (t *team) take(random *rand.Rand) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range random.Perm(t.always) {
		if !t.slots[i].busy {
			t.slots[i].busy = true
			return i
		}
	}
	return -1
}

func (t *team) giveBack(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[i].busy = false
}

// start starts a process in a slot that has none.
func (t *team) start(i int) error {
	s := &t.slots[i]
	s.starts++
	r := t.role(i, fmt.Sprintf("%s%d-%d", t.name, i, s.starts))
	r.Clock = s.clock
	cmd, err := r.command()
	if err != nil {
		return err
	}
	s.process, err = spawn(r.Name, cmd, t.log(fmt.Sprintf("%s%d", t.name, i)))
	return err
}

func (t *team) startAlways() error {
	for i := range t.always {
		if err := t.start(i); err != nil {
			return err
		}
	}
	return nil
}

// stop asks a process to end and waits for it. It must do so in good order.
func (t *team) stop(i int) error {
	s := &t.slots[i]
	if s.process == nil {
		return nil
	}
	err := s.process.end(syscall.SIGTERM, 2*shutdown)
	if err != nil {
		s.process.kill()
		err = &exitError{s.process.name, fmt.Sprintf("its graceful stop failed: %v", err)}
	}
	s.process = nil
	return err
}

// kill ends all processes for sure, also those that are stopped.
func (t *team) kill() {
	for i := range t.slots {
		if p := t.slots[i].process; p != nil {
			p.kill()
		}
	}
}

// A happening is what makes a fault happen and returns when it is over.
type happening = func(ctx context.Context, h *harness, random *rand.Rand) error

// one makes something happen to one process of a team.
func one(of func(*harness) *team, what func(ctx context.Context, h *harness, random *rand.Rand, t *team, i int) error) happening {
	return func(ctx context.Context, h *harness, random *rand.Rand) error {
		t := of(h)
		i := t.take(random)
		if i < 0 {
			return fmt.Errorf("every %s is busy with a fault", t.name)
		}
		defer t.giveBack(i)
		return what(ctx, h, random, t, i)
	}
}

func killOne(ctx context.Context, h *harness, random *rand.Rand, t *team, i int) error {
	t.slots[i].process.kill()
	wait(ctx, between(random, 0, 2*h.lease))
	return t.start(i)
}

func freezeOne(ctx context.Context, h *harness, _ *rand.Rand, t *team, i int) error {
	process := t.slots[i].process
	process.signal(syscall.SIGSTOP)
	wait(ctx, 3*h.lease)
	process.signal(syscall.SIGCONT)
	return nil
}

// killAfterCommit has a consumer kill itself when it has committed the work for a message, before the broker gets to know that.
func killAfterCommit(ctx context.Context, h *harness, random *rand.Rand, t *team, i int) error {
	process := t.slots[i].process
	process.signal(syscall.SIGUSR1)
	timer := time.NewTimer(10 * h.lease)
	defer timer.Stop()
	select {
	case <-process.done:
	case <-timer.C: // it has no partition, or another fault keeps messages from it
		process.kill()
	}
	wait(ctx, between(random, 0, 2*h.lease))
	return t.start(i)
}

// restartAll is a rolling restart.
func restartAll(of func(*harness) *team) happening {
	return func(ctx context.Context, h *harness, random *rand.Rand) error {
		t := of(h)
		for _, i := range random.Perm(t.always) {
			if err := t.stop(i); err != nil {
				return err
			}
			if err := t.start(i); err != nil {
				return err
			}
			wait(ctx, between(random, 0, h.lease))
		}
		return nil
	}
}

// join has one or two more processes for a while.
func join(of func(*harness) *team) happening {
	return func(ctx context.Context, h *harness, random *rand.Rand) error {
		t := of(h)
		more := 1 + random.IntN(len(t.slots)-t.always)
		for i := t.always; i < t.always+more; i++ {
			if err := t.start(i); err != nil {
				return err
			}
		}
		wait(ctx, between(random, h.lease/2, 3*h.lease))
		for i := t.always; i < t.always+more; i++ {
			if err := t.stop(i); err != nil {
				return err
			}
		}
		return nil
	}
}
