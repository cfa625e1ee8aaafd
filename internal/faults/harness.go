//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
)

const (
	relays    = 4 // that always run
	joining   = 2 // further relays or consumers, for a while
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
	// consumers is how many of them there are that always run; with none there is no chain of handlers.
	consumers int
	progress  io.Writer
}

// harness is everything that runs.
type harness struct {
	options

	folder   string
	database database
	db       *server
	kafka    *server
	gorm     *gorm.DB // not through a proxy
	// published reads what relays publish for the writers; reserved and poisoned what they do for consumers.
	published, reserved, poisoned *reader

	relays, consumers team
	writers           [processes]*child
	program           string // this one with a wrong clock, if that is among the faults

	mu sync.Mutex
	// skewed is how often program was started, and noted how often it saw that its clock is wrong.
	skewed, noted int
	wrong         []error // what must not happen, beside what the checker finds
	closed        []func()
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

// newHarness starts the servers, without relays and writers, for faults of the kinds. After an error, too, close must be called.
func newHarness(ctx context.Context, o options, kinds []kind) (*harness, error) {
	h := &harness{options: o}
	h.teams()
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
	if slices.ContainsFunc(kinds, func(k kind) bool { return k.clock }) {
		if h.program, err = buildSkewed(ctx, h.folder); err != nil {
			return h, err
		}
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
	for _, t := range []*team{&h.relays, &h.consumers} {
		for i := range t.slots {
			if t.slots[i].database, err = newProxy(h.db.address()); err != nil {
				return h, err
			}
			h.closed = append(h.closed, t.slots[i].database.close)
			if t.slots[i].kafka, err = newProxy(h.kafka.address()); err != nil {
				return h, err
			}
			h.closed = append(h.closed, t.slots[i].kafka.close)
		}
	}
	return h, nil
}

// teams says what the processes of both are told.
func (h *harness) teams() {
	log := func(name string) string { return filepath.Join(h.folder, name+".log") }
	h.relays = team{name: "relay", always: relays, slots: make([]slot, relays+joining), log: log}
	h.relays.role = func(i int, name string) role {
		s := &h.relays.slots[i]
		return role{
			Kind: "relay", Name: name, Database: h.options.database, DSN: h.database.dsn(s.database.address()),
			Kafka: s.kafka.address(), Lease: h.lease, Batch: i%2 == 1, Remove: h.remove, Notes: h.notes(publisherNotes), Program: h.program,
		}
	}
	h.consumers = team{name: "consumer", log: log}
	if h.options.consumers == 0 {
		return
	}
	h.consumers.always, h.consumers.slots = h.options.consumers, make([]slot, h.options.consumers+joining)
	h.consumers.role = func(i int, name string) role {
		s := &h.consumers.slots[i]
		return role{
			Kind: "consumer", Name: name, Database: h.options.database, DSN: h.database.dsn(s.database.address()),
			Kafka: s.kafka.address(), Lease: h.lease, Notes: h.notes(consumerNotes), Program: h.program,
			Seed: h.seed + uint64(1000*i+s.starts), //nolint:gosec // small and positive
		}
	}
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
	if err := createTopics(h.kafka.address(), topic, topicReserved, topicPoisoned); err != nil {
		return err
	}
	for topic, r := range map[string]**reader{topic: &h.published, topicReserved: &h.reserved, topicPoisoned: &h.poisoned} {
		err := until(ctx, 200*time.Millisecond, func() (err error) {
			*r, err = newReader(h.kafka.address(), topic)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fill makes the tables and accounts.
func (h *harness) fill(ctx context.Context) error {
	if err := gormoutbox.Migrate(ctx, h.gorm); err != nil {
		return err
	}
	if err := dedup.Migrate(ctx, h.gorm); err != nil {
		return err
	}
	if err := h.gorm.AutoMigrate(&account{}, &effect{}); err != nil {
		return err
	}
	rows := make([]account, accounts)
	for i := range rows {
		rows[i].ID = i + 1
	}
	return h.gorm.WithContext(gormoutbox.Ignore(ctx)).Create(&rows).Error
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
	for _, t := range []*team{&h.relays, &h.consumers} {
		for i := range t.slots {
			again(t.slots[i].process, func() error { return t.start(i) })
		}
	}
	for i, c := range h.writers {
		again(c, func() error { return h.startWriter(i, h.seed) })
	}
}

// In these files processes note what happened by the way.
const (
	publisherNotes = "publisher"
	consumerNotes  = "consumer"
)

func (h *harness) notes(of string) string { return filepath.Join(h.folder, of+".notes") }

// readNotes returns what was noted.
func (h *harness) readNotes(of string) ([]byte, error) {
	notes, err := os.ReadFile(h.notes(of))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noted += bytes.Count(notes, []byte(noteOfClock))
	return notes, err
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
	h.relays.kill()
	h.consumers.kill()
	for _, p := range h.writers {
		if p != nil {
			p.kill()
		}
	}
	for _, r := range []*reader{h.published, h.reserved, h.poisoned} {
		if r == nil {
			continue
		}
		if err := r.close(); err != nil {
			h.say("closing a reader: %v", err)
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
