package gormoutbox_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

var (
	diffSeed      = flag.Uint64("differential.seed", 0, "run the sequence of this seed alone in TestDifferential")
	diffLength    = flag.Int("differential.steps", diffSteps, "how many steps each goroutine of TestDifferential does")
	diffFailures  = flag.Int("differential.failures", 3, "how many failing sequences end TestDifferential")
	diffSequences = flag.Int("differential.sequences", 200, "how many sequences TestDifferential runs on each database")
)

// diffVariable chooses the database of FuzzDifferential: sqlite (the default), postgres, mariadb or mysql.
const diffVariable = "OUTBOX_TEST_DIFFERENTIAL"

// The sizes of a sequence. Every fourth one has a single goroutine and is compared after each step, so that a failure has one cause.
const (
	diffGoroutines = 4
	diffSteps      = 5
)

// Random writes from several goroutines, replayed from their events onto empty tables, give the rows of
// the database. A sequence is made from its seed alone; what differs between two runs is how goroutines meet.
//
// Left out are raw SQL, which passes by the capture, and READ COMMITTED on MySQL, where an upsert may take the new row of
// another transaction for its own: the isolation is the database's default.
func TestDifferential(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		run := newDiffRun(t, db)
		if *diffSeed != 0 {
			run.sequence(t, *diffSeed, diffGoroutines, *diffLength)
			return
		}
		failed := 0
		for seed := uint64(1); seed <= uint64(*diffSequences) && failed < *diffFailures; seed++ {
			if !run.sequence(t, seed, diffGoroutines, *diffLength) {
				failed++
			}
		}
		if failed == 0 && *diffSequences >= 100 {
			run.report(t)
		}
	})
}

// FuzzDifferential is TestDifferential with seeds and sizes of the fuzzer. Each of its processes has a database of its own.
func FuzzDifferential(f *testing.F) {
	makers := map[string]func(testing.TB) testenv.Database{
		"": testenv.SQLite, "sqlite": testenv.SQLite, "postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath,
	}
	newDatabase, ok := makers[os.Getenv(diffVariable)]
	if !ok {
		f.Fatalf("%s=%q: want sqlite, postgres, mariadb or mysql", diffVariable, os.Getenv(diffVariable))
	}
	run := newDiffRun(f, newDatabase(f))
	for seed := range uint64(8) {
		f.Add(1000+seed, uint8(diffGoroutines), uint8(diffSteps))
	}
	f.Fuzz(func(t *testing.T, seed uint64, goroutines, steps uint8) {
		run.sequence(t, seed, 1+int(goroutines)%6, 1+int(steps)%12)
	})
}

// diffRun is one database for many sequences.
type diffRun struct {
	name   string
	g      *gorm.DB
	quiet  *gorm.DB
	models []*diffModel

	steps, succeeded, refused int
	captured                  map[string]int
	kinds                     map[string]int
}

func newDiffRun(t testing.TB, db testenv.Database) *diffRun {
	t.Helper()
	if db.Name == "postgres" && strings.Contains(db.DSN, "?") {
		db.DSN += "&deadlock_timeout=20ms" // instead of a second, as deadlocks are many here
	}
	g := db.Open(t, &gorm.Config{DisableForeignKeyConstraintWhenMigrating: true})
	run := &diffRun{name: db.Name, g: g, quiet: ignoring(g), models: diffModels(), captured: map[string]int{}, kinds: map[string]int{}}
	require.NoError(t, g.SetupJoinTable(&DiffOwner{}, "Tags", &DiffLink{}))
	var all []any
	for _, m := range run.models {
		all = append(all, m.empty())
	}
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Models: all, Logger: slog.New(slog.DiscardHandler)})))
	require.NoError(t, gormoutbox.Migrate(t.Context(), g))
	require.NoError(t, g.AutoMigrate(all...))
	for _, m := range run.models {
		stmt := &gorm.Statement{DB: g}
		require.NoError(t, stmt.Parse(m.empty()))
		require.Equal(t, stmt.Table, m.table)
	}
	return run
}

// sequence runs the steps of a seed and says whether the events told the truth.
func (run *diffRun) sequence(t *testing.T, seed uint64, goroutines, steps int) bool {
	t.Helper()
	run.wipe(t)
	alone := seed%4 == 0 || goroutines == 1
	if alone {
		goroutines = 1
	}
	lists := make([][]*diffStep, goroutines)
	for i := range lists {
		d := &diffGenerator{r: rand.New(rand.NewPCG(seed, uint64(i))), models: run.models}
		lists[i] = d.steps(fmt.Sprint(i+1), steps)
	}
	var problems []string
	if alone {
		for i, s := range lists[0] {
			problems = run.execute(s)
			if len(problems) == 0 {
				problems = run.verify(t, lists[0][:i+1])
			}
			if len(problems) > 0 {
				break
			}
		}
	} else {
		var wg sync.WaitGroup
		unexpected := make([][]string, goroutines)
		for i, list := range lists {
			wg.Go(func() {
				for _, s := range list {
					unexpected[i] = append(unexpected[i], run.execute(s)...)
				}
			})
		}
		wg.Wait()
		problems = append(slices.Concat(unexpected...), run.verify(t, slices.Concat(lists...))...)
	}
	if len(problems) == 0 {
		return true
	}
	var b strings.Builder
	for _, list := range lists {
		for _, s := range list {
			if s.done || !alone {
				s.write(&b, "  ")
			}
		}
	}
	b.WriteString("events:\n")
	for _, e := range events(t, run.quiet) {
		fmt.Fprintf(&b, "  %d %s %s %s %s\n", e.Seq, e.EventType, e.AggregateID, e.Payload, e.Headers)
	}
	t.Errorf("seed %d on %s with %d goroutines of %d steps (again with -differential.seed=%d):\n  %s\nsteps:\n%s",
		seed, run.name, goroutines, steps, seed, strings.Join(problems, "\n  "), b.String())
	return false
}

func (run *diffRun) wipe(t *testing.T) {
	t.Helper()
	require.NoError(t, run.quiet.Transaction(func(tx *gorm.DB) error {
		for _, m := range run.models {
			if err := tx.Exec("DELETE FROM " + m.table).Error; err != nil {
				return err
			}
		}
		return tx.Exec("DELETE FROM " + gormoutbox.DefaultTable).Error
	}))
}

// execute runs a step and returns what must not have happened.
func (run *diffRun) execute(s *diffStep) (problems []string) {
	defer func() {
		if p := recover(); p != nil {
			problems = append(problems, fmt.Sprintf("step %s panicked: %v", s.id, p))
		}
	}()
	_ = run.do(run.g, s)
	for _, leaf := range s.leaves() {
		if leaf.err != nil && diffClass(leaf.err) == "unexpected" {
			problems = append(problems, fmt.Sprintf("step %s: unexpected error %T %v", leaf.id, leaf.err, leaf.err))
		}
		if leaf.bypass && leaf.done && leaf.err == nil {
			problems = append(problems, fmt.Sprintf("step %s was not refused", leaf.id))
		}
	}
	return problems
}

var errDiffRollback = errors.New("rolled back on purpose")

func (run *diffRun) do(g *gorm.DB, s *diffStep) error {
	s.done = true
	if s.mode == "" {
		s.rows, s.err = s.run(g)
		return s.err
	}
	s.err = g.Transaction(func(tx *gorm.DB) error {
		if s.read {
			// From here on REPEATABLE READ sees what was there now.
			if err := tx.Find(&[]DiffParcel{}).Error; err != nil {
				return err
			}
		}
		if s.mode == "savepoint" && len(s.steps) > 1 {
			if err := run.doIgnoring(tx, s, s.steps[0]); err != nil {
				return err
			}
			if err := tx.SavePoint("behind_first").Error; err != nil {
				return err
			}
			for _, child := range s.steps[1:] {
				if err := run.doIgnoring(tx, s, child); err != nil {
					return err
				}
			}
			for _, child := range s.steps[1:] {
				child.undo()
			}
			return tx.RollbackTo("behind_first").Error
		}
		for _, child := range s.steps {
			if s.mode == "nested" {
				err := tx.Transaction(func(inner *gorm.DB) error { return run.do(inner, child) })
				if err != nil {
					child.undo()
				}
				if err != nil && !s.mayIgnore(err) {
					return err
				}
				continue
			}
			if err := run.doIgnoring(tx, s, child); err != nil {
				return err
			}
		}
		if s.mode == "rollback" {
			return errDiffRollback
		}
		return nil
	})
	if s.err != nil {
		s.undo()
	}
	return s.err
}

func (run *diffRun) doIgnoring(tx *gorm.DB, s, child *diffStep) error {
	if err := run.do(tx, child); err != nil && !s.mayIgnore(err) {
		return err
	}
	return nil
}

// mayIgnore says whether the transaction goes on: not after a deadlock, which has ended it on MySQL.
func (s *diffStep) mayIgnore(err error) bool {
	switch diffClass(err) {
	case "refused", "conflict", "missing", "rollback":
		return s.ignore
	}
	return false
}

func (s *diffStep) undo() {
	s.undone = true
	for _, child := range s.steps {
		child.undo()
	}
}

// diffClass says what kind of error it is.
func diffClass(err error) string {
	if errors.Is(err, errDiffRollback) {
		return "rollback"
	}
	if errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, gorm.ErrMissingWhereClause) || errors.Is(err, gorm.ErrPrimaryKeyRequired) {
		return "missing"
	}
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return "ended"
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "23505", "23502", "21000", "42P10": // unique, null, the same row twice, no such target
			return "conflict"
		case "40P01", "40001", "25P02": // deadlock, serialization, transaction is aborted
			return "ended"
		}
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case 1062, 1364, 1048:
			return "conflict"
		case 1213, 1205, 1020:
			return "ended"
		}
	}
	for _, text := range []string{
		"UNIQUE constraint failed", "NOT NULL constraint failed", // SQLite
		"failed to assign association", // GORM can't pair keys that only the database finds equal
	} {
		if strings.Contains(err.Error(), text) {
			return "conflict"
		}
	}
	if _, ok := isCapture(err); ok {
		return "refused"
	}
	if _, ok := errors.AsType[*gormoutbox.EventError](err); ok { // an empty code
		return "refused"
	}
	return "unexpected"
}

// verify replays the events and compares them with the rows and with what the steps reported.
func (run *diffRun) verify(t *testing.T, steps []*diffStep) (problems []string) {
	t.Helper()
	pool, err := run.g.DB()
	require.NoError(t, err)
	if n := pool.Stats().InUse; n != 0 {
		problems = append(problems, fmt.Sprintf("%d connections in use", n))
	}
	replay := newDiffReplay(run.models)
	byStep := map[string]int{}
	for _, e := range events(t, run.quiet) {
		replay.apply(e)
		var headers map[string]string
		require.NoError(t, json.Unmarshal([]byte(e.Headers), &headers))
		byStep[headers["step"]]++
	}
	problems = append(problems, replay.problems...)
	rows, err := diffRows(run.quiet, run.models)
	require.NoError(t, err)
	problems = append(problems, diffCompare(rows, replay.state)...)

	for _, s := range steps {
		for _, leaf := range s.leaves() {
			n := byStep[leaf.id]
			switch {
			case n > 0 && leaf.undone:
				problems = append(problems, fmt.Sprintf("step %s was rolled back and has %d events", leaf.id, n))
			case n > 0 && leaf.err != nil && !leaf.loose:
				problems = append(problems, fmt.Sprintf("step %s failed and has %d events", leaf.id, n))
			case leaf.err == nil && !leaf.loose && int64(n) > leaf.rows:
				problems = append(problems, fmt.Sprintf("step %s wrote %d rows and has %d events", leaf.id, leaf.rows, n))
			}
			if !leaf.counted {
				leaf.counted = true
				run.tally(leaf, n)
			}
		}
	}
	return problems
}

// tally counts what the steps of a sequence achieved.
func (run *diffRun) tally(s *diffStep, events int) {
	run.kinds[s.kind]++
	switch {
	case !s.done || s.bypass:
		return
	case s.err == nil:
		run.succeeded++
	case diffClass(s.err) == "refused":
		run.refused++
	}
	run.steps++
	if s.err == nil && events > 0 {
		run.captured[s.kind]++
	}
}
