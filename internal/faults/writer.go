//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// patience is how long one transaction of a writer may take.
const patience = 30 * time.Second

// write runs writers until ctx ends.
func (r role) write(ctx context.Context) error {
	d, err := databaseFor(r.Database)
	if err != nil {
		return err
	}
	j, err := openJournal(r.Log)
	if err != nil {
		return err
	}
	g, err := open(ctx, d, r.DSN, r.Writers+1)
	if err != nil {
		return err
	}
	defer closePool(g)
	errs := make([]error, r.Writers)
	var wg sync.WaitGroup
	for i := range r.Writers {
		wg.Go(func() {
			w := &writer{journal: j, random: rand.New(rand.NewPCG(r.Seed, uint64(i)))} //nolint:gosec // the seed decides
			errs[i] = w.run(ctx, g, time.Second*time.Duration(r.Writers)/time.Duration(r.Rate))
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), j.file.Close())
}

type writer struct {
	journal *journal
	random  *rand.Rand
}

// run makes a transaction in each interval, on average. It fails only if its journal does.
func (w *writer) run(ctx context.Context, g *gorm.DB, interval time.Duration) error {
	for ctx.Err() == nil {
		begin := time.Now()
		err := w.transaction(context.WithoutCancel(ctx), g)
		if journal := (*journalFailure)(nil); errors.As(err, &journal) {
			return err
		}
		if err != nil && !errors.Is(err, errChangedMind) {
			fmt.Fprintln(os.Stderr, "writer:", err)
			wait(ctx, 50*time.Millisecond)
		}
		wait(ctx, time.Duration(w.random.Int64N(int64(2*interval)))-time.Since(begin))
	}
	return nil
}

var errChangedMind = errors.New("rolled back on purpose")

// journalFailure means that nobody will know what was written.
type journalFailure struct{ error }

// Unwrap returns the error behind.
func (e *journalFailure) Unwrap() error { return e.error }

// transaction changes a few accounts and says in the journal what became of that, unless it does not know.
func (w *writer) transaction(ctx context.Context, g *gorm.DB) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := uuid.NewString()
	intended, complete := false, false
	err := g.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		rows, err := w.lock(tx)
		if err != nil {
			return err
		}
		steps := w.plan(rows)
		intended = true
		if err := w.journal.intend(id, steps); err != nil {
			return &journalFailure{err}
		}
		for i, s := range steps {
			if err := w.save(tx, s); err != nil {
				return err
			}
			if i == len(steps)/2 {
				w.linger()
			}
		}
		if w.random.IntN(12) == 0 {
			return errChangedMind
		}
		complete = true
		return nil
	})
	switch {
	case !intended:
		return err
	case err == nil:
		if j := w.journal.ended(id, true); j != nil {
			return &journalFailure{j}
		}
	case !complete:
		if j := w.journal.ended(id, false); j != nil {
			return &journalFailure{j}
		}
	default:
		// COMMIT failed: nobody knows what the database did.
	}
	return err
}

// lock locks a few accounts and returns them as they are.
func (w *writer) lock(tx *gorm.DB) ([]account, error) {
	ids := w.random.Perm(accounts)[:1+w.random.IntN(3)]
	for i := range ids {
		ids[i]++ // a zero key is none
	}
	var rows []account
	return rows, tx.Clauses(clause.Locking{Strength: "UPDATE"}).Order("id").Find(&rows, ids).Error
}

// plan is one state after the other of the accounts, a version each.
func (w *writer) plan(rows []account) []account {
	var steps []account
	for _, row := range rows {
		for range 1 + w.random.IntN(2) {
			row.Version++
			row.Nonce = uuid.NewString()
			steps = append(steps, row)
		}
	}
	// Accounts are mixed; each account's versions stay in their order.
	for i := range steps {
		j := w.random.IntN(i + 1)
		if steps[i].ID != steps[j].ID && i-j == 1 {
			steps[i], steps[j] = steps[j], steps[i]
		}
	}
	return steps
}

// save writes a state, as a save of the annotated model or as a raw statement with a domain event.
func (w *writer) save(tx *gorm.DB, a account) error {
	if w.random.IntN(2) == 0 {
		return tx.Model(&account{ID: a.ID}).Select("version", "nonce").Updates(&a).Error
	}
	if err := tx.Exec("UPDATE accounts SET version = ?, nonce = ? WHERE id = ?", a.Version, a.Nonce, a.ID).Error; err != nil {
		return err
	}
	payload, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return gormoutbox.Append(tx, gormoutbox.Event{
		AggregateType: "account", AggregateID: strconv.Itoa(a.ID), Type: "account.moved", Payload: payload,
	})
}

// linger keeps the transaction open, now and then for long, so that others that began later commit before.
func (w *writer) linger() {
	d := time.Duration(w.random.IntN(4)) * time.Millisecond
	if w.random.IntN(60) == 0 {
		d = time.Duration(w.random.IntN(300)) * time.Millisecond
	}
	pause(d)
}
