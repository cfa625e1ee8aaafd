//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

const (
	relays    = 4 // that always run; further slots are for those that join
	slots     = 6
	writers   = 8
	processes = 2 // of writers
)

// options is what the command is asked for.
type options struct {
	database string
	faults   int
	seed     uint64
	limit    time.Duration
	lease    time.Duration
	rate     int
	remove   bool
	keep     bool
	kinds    []string // nil means all
	progress io.Writer
}

// harness is everything that runs.
type harness struct {
	options

	folder   string
	database database
	db       *server
	kafka    *server
	gorm     *gorm.DB // not through a proxy
	consumer *consumer
	relays   [slots]relaySlot
	writers  [processes]*child

	mu     sync.Mutex
	wrong  []error // what must not happen, beside what the checker finds
	closed []func()
}

// relaySlot is a place for a relay process, with its ways to the servers.
type relaySlot struct {
	database, kafka *proxy
	process         *child
	starts          int
	busy            bool // some fault has it
}

func (h *harness) say(format string, args ...any) {
	fmt.Fprintf(h.progress, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}

// blame notes what must not happen.
func (h *harness) blame(err error) {
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, err)
	h.say("WRONG: %v", err)
}

// newHarness starts the servers, without relays and writers. After an error, too, close must be called.
func newHarness(ctx context.Context, o options) (*harness, error) {
	h := &harness{options: o}
	d, err := databaseFor(o.database)
	if err != nil {
		return h, err
	}
	h.database = d
	if h.folder, err = os.MkdirTemp("", "outbox-faults-"); err != nil {
		return h, err
	}
	// The database's own account must get through.
	if err := os.Chmod(h.folder, 0o755); err != nil {
		return h, err
	}
	if err := h.startServers(ctx); err != nil {
		return h, err
	}
	if h.gorm, err = open(ctx, d, d.dsn(h.db.address()), 5); err != nil {
		return h, err
	}
	h.closed = append(h.closed, func() { closePool(h.gorm) })
	if err := h.fill(ctx); err != nil {
		return h, err
	}
	for i := range h.relays {
		if h.relays[i].database, err = newProxy(h.db.address()); err != nil {
			return h, err
		}
		h.closed = append(h.closed, h.relays[i].database.close)
		if h.relays[i].kafka, err = newProxy(h.kafka.address()); err != nil {
			return h, err
		}
		h.closed = append(h.closed, h.relays[i].kafka.close)
	}
	return h, nil
}

func (h *harness) startServers(ctx context.Context) error {
	var wg sync.WaitGroup
	var dbErr, kafkaErr error
	wg.Go(func() {
		if h.db, dbErr = h.database.prepare(ctx, h.folder); dbErr == nil {
			dbErr = h.db.start(ctx)
		}
	})
	wg.Go(func() {
		if h.kafka, kafkaErr = prepareKafka(ctx, h.folder); kafkaErr == nil {
			kafkaErr = h.kafka.start(ctx)
		}
	})
	wg.Wait()
	if err := errors.Join(dbErr, kafkaErr); err != nil {
		return err
	}
	if err := createTopic(h.kafka.address()); err != nil {
		return err
	}
	return until(ctx, 200*time.Millisecond, func() (err error) {
		h.consumer, err = newConsumer(h.kafka.address())
		return err
	})
}

// fill makes the tables and accounts.
func (h *harness) fill(ctx context.Context) error {
	if err := gormoutbox.Migrate(ctx, h.gorm); err != nil {
		return err
	}
	if err := h.gorm.AutoMigrate(&account{}); err != nil {
		return err
	}
	rows := make([]account, accounts)
	for i := range rows {
		rows[i].ID = i + 1
	}
	return h.gorm.WithContext(gormoutbox.Ignore(ctx)).Create(&rows).Error
}

// startRelay starts a process in a slot that has none.
func (h *harness) startRelay(slot int) error {
	s := &h.relays[slot]
	s.starts++
	name := fmt.Sprintf("relay%d", slot)
	r := role{
		Kind: "relay", Name: fmt.Sprintf("%s-%d", name, s.starts), Database: h.options.database, DSN: h.database.dsn(s.database.address()),
		Kafka: s.kafka.address(), Lease: h.lease, Batch: slot%2 == 1, Remove: h.remove, Slow: filepath.Join(h.folder, "publisher.notes"),
	}
	cmd, err := r.command()
	if err != nil {
		return err
	}
	s.process, err = spawn(r.Name, cmd, filepath.Join(h.folder, name+".log"))
	return err
}

// stopRelay asks a relay to end and waits for it. It must do so in good order.
func (h *harness) stopRelay(slot int) error {
	s := &h.relays[slot]
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

// lookAfter finds processes that have ended by themselves, and starts them again.
func (h *harness) lookAfter(name string) {
	again := func(c *child, start func() error) {
		if c == nil {
			return
		}
		select {
		case <-c.done:
			h.blame(&exitError{c.name, fmt.Sprintf("it ended by itself in %q: %v", name, c.err)})
			h.blame(start())
		default:
		}
	}
	for i := range h.relays {
		again(h.relays[i].process, func() error { return h.startRelay(i) })
	}
	for i, c := range h.writers {
		again(c, func() error { return h.startWriter(i, h.seed) })
	}
}

func (h *harness) journal(process int) string {
	return filepath.Join(h.folder, fmt.Sprintf("writer%d.journal", process))
}

func (h *harness) startWriter(process int, seed uint64) error {
	r := role{
		Kind: "writer", Name: fmt.Sprintf("writer%d", process), Database: h.options.database, DSN: h.database.dsn(h.db.address()),
		Seed: seed, Log: h.journal(process), Writers: writers / processes, Rate: h.rate / processes,
	}
	cmd, err := r.command()
	if err != nil {
		return err
	}
	h.writers[process], err = spawn(r.Name, cmd, filepath.Join(h.folder, r.Name+".log"))
	return err
}

// close ends all processes. Nothing of this one runs on.
func (h *harness) close() {
	for i := range h.relays {
		if p := h.relays[i].process; p != nil {
			p.kill() // also one that is stopped
		}
	}
	for _, p := range h.writers {
		if p != nil {
			p.kill()
		}
	}
	if h.consumer != nil {
		if err := h.consumer.close(); err != nil {
			h.say("closing the consumer: %v", err)
		}
	}
	for i := len(h.closed) - 1; i >= 0; i-- {
		h.closed[i]()
	}
	for _, s := range []*server{h.db, h.kafka} {
		if s != nil {
			s.stop()
		}
	}
}
