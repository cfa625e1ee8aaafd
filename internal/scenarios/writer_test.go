package scenarios_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay/relaytest"
)

// account is an aggregate whose row its writers change, which serializes them.
type account struct {
	ID      int `gorm:"primaryKey;autoIncrement:false"`
	Version int
}

const (
	writers    = 8
	aggregates = 200
	kind       = "account"
)

func createAccounts(t *testing.T, g *gorm.DB) {
	t.Helper()
	require.NoError(t, g.AutoMigrate(&account{}))
	all := make([]account, aggregates)
	for i := range all {
		all[i].ID = i + 1
	}
	require.NoError(t, g.Create(&all).Error)
}

// writer makes transactions that raise the versions of accounts, with an event each.
type writer struct {
	db     *gorm.DB
	random *rand.Rand
	ledger *ledger
	topic  string
	// late keeps transactions open for up to some milliseconds, now and then for up to 300, so that others
	// that began later commit before.
	late bool
}

var errChangedMind = errors.New("rolled back on purpose")

// write makes one transaction with at most this many events, again if the database wants it so, and says how
// many it has committed.
func (w *writer) write(t *testing.T, most int) int {
	var err error
	for range 20 {
		n := 1 + w.random.IntN(most)
		if err = w.transaction(n); err == nil {
			return n
		}
		if errors.Is(err, errChangedMind) {
			return 0
		}
	}
	assert.NoError(t, err)
	return 0
}

// transaction says in the ledger what it will write before it commits, and then what became of it, unless it does not know.
func (w *writer) transaction(n int) error {
	ids := w.random.Perm(aggregates)[:n]
	for i := range ids {
		ids[i]++ // a zero key is none
	}
	early, mind := w.random.IntN(n+1), w.random.IntN(30) > 0
	var written []string
	complete := false
	err := w.db.Transaction(func(tx *gorm.DB) error {
		var accounts []account
		if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).Order("id").Find(&accounts, ids).Error; err != nil {
			return err
		}
		if err := tx.Model(&account{}).Where("id IN ?", ids).Update("version", gorm.Expr("version + 1")).Error; err != nil {
			return err
		}
		events := make([]gormoutbox.Event, n)
		intended := make([]relaytest.Event, n)
		for i, a := range accounts {
			id := uuid.New()
			events[i] = gormoutbox.Event{
				ID: id, AggregateType: kind, AggregateID: strconv.Itoa(a.ID), Type: "account.moved", Topic: w.topic, Payload: strconv.Itoa(a.Version + 1),
			}
			intended[i] = relaytest.Event{ID: id.String(), AggregateType: kind, AggregateID: strconv.Itoa(a.ID), Position: int64(a.Version + 1)}
			written = append(written, id.String())
		}
		w.ledger.Intended(intended...)
		if err := gormoutbox.Append(tx, events[:early]...); err != nil {
			return err
		}
		w.linger()
		if err := gormoutbox.Append(tx, events[early:]...); err != nil {
			return err
		}
		if !mind {
			return errChangedMind
		}
		complete = true
		return nil
	})
	switch {
	case err == nil:
		w.ledger.Committed(written...)
	case !complete:
		w.ledger.RolledBack(written...)
	default:
		// COMMIT failed: nobody knows what the database did.
	}
	return err
}

// linger is load; nothing waits for it.
func (w *writer) linger() {
	switch {
	case !w.late:
	case w.random.IntN(100) == 0:
		load(time.Duration(w.random.IntN(300)) * time.Millisecond)
	default:
		load(time.Duration(w.random.IntN(4)) * time.Millisecond)
	}
}

// load passes the time, as something that takes it.
func load(d time.Duration) { <-time.After(d) }
