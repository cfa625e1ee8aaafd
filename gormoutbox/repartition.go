package gormoutbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// Repartition gives an outbox that is in use another number of partitions, 1 to 1024. The table is that of the events, "" for
// the one of the plugin that is registered on db, else DefaultTable. Stop the relays and what saves events, let Relay.Drain publish what is pending, call
// Repartition, start again: docs/relay.md has the steps. It needs the right to alter the tables, as Migrate does.
//
// While a relay is alive, an event is pending or an aggregate held it changes nothing and returns a *RepartitionError with all
// causes. Events that are kept get their new partitions after the change, in small transactions. After an error, a crash or
// the end of ctx a second call with the same count goes on where the first one stopped; until then retention and replay pass over
// the rest of the kept events, and nothing worse. If the count is what it was, that is all that it does, also beside running relays.
//
// New partitions have numbers that none had before, and from then on the database refuses new events with older ones. So a process that saves
// and was not stopped can't write to a partition that nobody reads, and not beside its aggregate's events either, whether there are more partitions now or fewer: its next
// save fails with ErrRepartitioned and is rolled back, and the one after that goes to the right partition.
func Repartition(ctx context.Context, db *gorm.DB, table string, count int) error {
	r, err := newRepartition(db, table, count)
	if err != nil {
		return err
	}
	return r.run(ctx, db)
}

// repartition is one call of Repartition.
//
// Why a number of a partition is never used again, instead of a change in place: the writers know the partitions from their memory, and asking
// the database at each save, or locking a row there, would cost each save something and still let through a transaction that asked before the change and commits after it.
// With new numbers, "below the first one" tells every event of a writer that does not know of the change, which a constraint
// can refuse; it costs the comparison of two integers. And kept rows say by themselves which of them were moved, so there is no progress to
// be recorded.
//
// The steps, and what a crash behind each leaves:
//
//  1. The fence: new events of the old partitions are refused. Making it waits for the transactions that have written some, so from now on none is pending or in flight.
//     On PostgreSQL and SQLite it is one transaction with step 2. On MySQL and MariaDB a crash here leaves an outbox whose saves fail until Repartition is called again.
//  2. The swap, one transaction: the rows of the partitions are exchanged, with low marks at the highest number, since all up to it is processed. Old leases end with their rows. From here on
//     everything may start.
//  3. Kept rows move, batch by batch. What is not moved yet is in no partition: no relay reads, removes or replays it.
type repartition struct {
	dialect dialect.Dialect
	pool    *sql.DB
	tables  Tables
	count   int
	plugin  *Plugin // nil if there is none for the table
	// rows is how many rows a batch has.
	rows int
	// after is called behind the fence and behind each batch, for tests.
	after func(step string)
}

// moveRows is how many rows one transaction moves.
const moveRows = 500

func newRepartition(db *gorm.DB, table string, count int) (*repartition, error) {
	configs, err := configsOf(db) // its checks of db
	if err != nil {
		return nil, err
	}
	r := &repartition{count: count, rows: moveRows, after: func(string) {}}
	plugin, err := On(db)
	switch {
	case table != "":
	case err == nil:
		table = plugin.config.Table
	case len(configs) > 1:
		return nil, err
	}
	r.tables = TablesFor(table)
	if err := ValidateTable(r.tables.Events); err != nil {
		return nil, err
	}
	for _, p := range pluginsOf(db) {
		if p.config.Table == r.tables.Events {
			r.plugin = p
		}
	}
	if count < 1 || count > maxPartitions {
		return nil, &ConfigError{Field: "count", Cause: fmt.Sprintf("%d is out of range", count), Cure: fmt.Sprintf("use 1 to %d", maxPartitions)}
	}
	if r.dialect, err = dialect.For(db); err != nil {
		return nil, err
	}
	if r.pool, err = db.DB(); err != nil {
		return nil, fmt.Errorf("gormoutbox: getting the connection pool: %w", err)
	}
	return r, nil
}

func (r *repartition) run(ctx context.Context, db *gorm.DB) error {
	if err := CheckTable(ctx, db, r.tables.Events); err != nil {
		return err
	}
	l, err := r.change(ctx)
	if err == nil {
		if r.plugin != nil {
			if in, e := r.plugin.on(db); e == nil {
				in.partitions.Store(nil)
			}
		}
		err = r.move(ctx, l)
	}
	var refused *RepartitionError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("gormoutbox: changing the number of partitions of %s: %w", r.tables.Events, err)
	}
	return err
}

// change takes the steps 1 and 2 and returns the partitions as they are then.
func (r *repartition) change(ctx context.Context) (layout, error) {
	l, last, err := readLayout(ctx, r.dialect, r.pool, r.tables)
	if err != nil || l.count == r.count {
		return l, err
	}
	// Once without any lock, so that a call that is refused disturbs nobody.
	if err := r.refuse(ctx, r.pool, l); err != nil {
		return layout{}, err
	}
	err = r.dialect.Lock(ctx, r.pool, r.tables.Schema, func(q dialect.Queryer) error {
		if l, last, err = readLayout(ctx, r.dialect, q, r.tables); err != nil || l.count == r.count {
			return err // another call was first
		}
		if r.dialect.Name() == "postgres" {
			t := r.tables
			for _, lock := range []string{r.dialect.Quote(t.Events) + " IN ACCESS EXCLUSIVE MODE", r.dialect.Quote(t.Partitions) + ", " + r.dialect.Quote(t.Relays) + " IN SHARE ROW EXCLUSIVE MODE"} {
				if _, err := q.ExecContext(ctx, "LOCK TABLE "+lock); err != nil {
					return fmt.Errorf("locking the tables: %w", err)
				}
			}
		}
		next := layout{first: last + 1, count: r.count}
		if r.dialect.Name() != "mysql" {
			err = r.swap(ctx, q, l, next)
		} else {
			err = r.swapMySQL(ctx, q, l, next)
		}
		if err == nil {
			l = next
		}
		return err
	})
	return l, err
}

// swap fences the old partitions off and exchanges them, in a transaction that keeps everybody else away.
func (r *repartition) swap(ctx context.Context, q dialect.Queryer, old, next layout) error {
	if err := r.refuse(ctx, q, old); err != nil {
		return err
	}
	if err := r.fence(ctx, q, next); err != nil {
		return err
	}
	return r.exchange(ctx, q, next)
}

// swapMySQL does it where a change of a table commits by itself. The fence comes first: it can't be made while an
// event is pending, and afterwards none can become so.
func (r *repartition) swapMySQL(ctx context.Context, q dialect.Queryer, old, next layout) (err error) {
	if err := r.fence(ctx, q, next); err != nil {
		var refused *RepartitionError
		if e := r.refuse(ctx, q, old); errors.As(e, &refused) {
			return refused // what became pending after the first look
		}
		return err
	}
	r.after("fenced")
	for _, begin := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if _, err := q.ExecContext(ctx, begin); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			_, e := q.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, e)
		}
	}()
	// Owners change nothing meanwhile.
	if _, err := q.ExecContext(ctx, "UPDATE "+r.dialect.Quote(r.tables.Partitions)+" SET low = low + 1"); err != nil {
		return fmt.Errorf("locking the partitions: %w", err)
	}
	// A relay that was started since the first look does no harm: nothing is pending, and its leases end with their rows.
	var refused *RepartitionError
	if err := r.refuse(ctx, q, old); err != nil && (!errors.As(err, &refused) || refused.Pending > 0 || refused.Held > 0) {
		return err
	}
	if err := r.exchange(ctx, q, next); err != nil {
		return err
	}
	_, err = q.ExecContext(ctx, "COMMIT")
	return err
}

// exchange replaces the partitions. All events are processed.
func (r *repartition) exchange(ctx context.Context, q dialect.Queryer, next layout) error {
	var high int64
	err := r.scan(ctx, q, "SELECT COALESCE(MAX(seq), 0) FROM "+r.dialect.Quote(r.tables.Events), nil, func(rows *sql.Rows) error { return rows.Scan(&high) })
	if err != nil {
		return fmt.Errorf("reading the highest number: %w", err)
	}
	if _, err := q.ExecContext(ctx, "DELETE FROM "+r.dialect.Quote(r.tables.Partitions)); err != nil {
		return fmt.Errorf("removing the old partitions: %w", err)
	}
	var b strings.Builder
	for part := next.first; part < next.end(); part++ {
		if part > next.first {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,%d)", part, high)
	}
	if _, err := q.ExecContext(ctx, "INSERT INTO "+r.dialect.Quote(r.tables.Partitions)+" (part, low) VALUES "+b.String()); err != nil {
		return fmt.Errorf("adding the new partitions: %w", err)
	}
	return nil
}

// refuse returns a *RepartitionError if the outbox is in use.
func (r *repartition) refuse(ctx context.Context, q dialect.Queryer, l layout) error {
	d, t := r.dialect, r.tables
	e := &RepartitionError{Table: t.Events, count: l.count}
	err := r.scan(ctx, q, "SELECT id FROM "+d.Quote(t.Relays)+" WHERE expires_at > "+d.Now()+" ORDER BY id", nil, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		e.Relays = append(e.Relays, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("looking for relays: %w", err)
	}
	for _, look := range []struct {
		what, query string
		into        []any
	}{
		{"leases", "SELECT COUNT(*) FROM " + d.Quote(t.Partitions) + " WHERE expires_at > " + d.Now(), []any{&e.Leases}},
		{"held aggregates", "SELECT COUNT(*) FROM " + d.Quote(t.Held), []any{&e.Held}},
		{
			"pending events", fmt.Sprintf("SELECT COUNT(*), COUNT(parked_at), COUNT(CASE WHEN parked_at IS NULL THEN available_at END), "+
				"COUNT(CASE WHEN part < %d OR part >= %d THEN 1 END) FROM %s WHERE processed_at IS NULL", l.first, l.end(), d.Quote(t.Events)),
			[]any{&e.Pending, &e.Parked, &e.Delayed, &e.Stray},
		},
	} {
		if err := r.scan(ctx, q, look.query, nil, func(rows *sql.Rows) error { return rows.Scan(look.into...) }); err != nil {
			return fmt.Errorf("looking for %s: %w", look.what, err)
		}
	}
	if len(e.Relays) == 0 && e.Leases == 0 && e.Held == 0 && e.Pending == 0 {
		return nil
	}
	return e
}

// move takes step 3: it gives every event whose partition does not exist the right one.
func (r *repartition) move(ctx context.Context, l layout) error {
	for _, gap := range [][2]int{{math.MinInt32, l.first - 1}, {l.end(), math.MaxInt32}} {
		if err := r.moveBetween(ctx, l, gap[0], gap[1]); err != nil {
			return fmt.Errorf("moving events: %w", err)
		}
	}
	return nil
}

func (r *repartition) moveBetween(ctx context.Context, l layout, low, high int) error {
	events := r.dialect.Quote(r.tables.Events)
	if r.dialect.Name() == "sqlite" {
		// No index begins with part: one walk over all rows.
		return r.moveWhere(ctx, l, fmt.Sprintf("part BETWEEN %d AND %d", low, high))
	}
	for {
		var part sql.NullInt64
		query := fmt.Sprintf("SELECT MIN(part) FROM %s WHERE part BETWEEN %d AND %d", events, low, high)
		if err := r.scan(ctx, r.pool, query, nil, func(rows *sql.Rows) error { return rows.Scan(&part) }); err != nil || !part.Valid {
			return err
		}
		if err := r.moveWhere(ctx, l, fmt.Sprintf("part = %d", part.Int64)); err != nil {
			return err
		}
		low = int(part.Int64) + 1
	}
}

// place is a row on its way to another partition.
type place struct {
	seq, from, to int64
	pending       bool
}

// moveWhere moves the rows of a condition in the order of their numbers.
func (r *repartition) moveWhere(ctx context.Context, l layout, where string) error {
	query := "SELECT seq, part, id, aggregate_type, aggregate_id, processed_at IS NULL FROM " + r.dialect.Quote(r.tables.Events) + " WHERE " + where +
		" AND seq > ? ORDER BY seq LIMIT ?"
	for after := int64(0); ; {
		var batch []place
		err := r.scan(ctx, r.pool, query, []any{after, r.rows}, func(rows *sql.Rows) error {
			var p place
			var id, aggregateType, aggregateID string
			if err := rows.Scan(&p.seq, &p.from, &id, &aggregateType, &aggregateID, &p.pending); err != nil {
				return err
			}
			parsed, _ := uuid.Parse(id) // an id that is none has no aggregate's order to keep and may go anywhere
			p.to = int64(l.part(aggregateType, aggregateID, parsed))
			batch = append(batch, p)
			return nil
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := r.moveBatch(ctx, batch); err != nil {
			return err
		}
		after = batch[len(batch)-1].seq
		r.after("moved")
	}
}

func (r *repartition) moveBatch(ctx context.Context, batch []place) (err error) {
	opts := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if r.dialect.Name() == "sqlite" {
		opts = nil
	}
	tx, err := r.pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
				err = errors.Join(err, e)
			}
		}
	}()
	events, partitions := r.dialect.Quote(r.tables.Events), r.dialect.Quote(r.tables.Partitions)
	exec := func(query string, args ...any) error {
		_, err := tx.ExecContext(ctx, r.dialect.Rebind(query), args...)
		return err
	}
	seqs, from, to := make([]int64, len(batch)), make([]int64, len(batch)), make([]int64, len(batch))
	for i, p := range batch {
		seqs[i], from[i], to[i] = p.seq, p.from, p.to
	}
	if r.dialect.Name() == "postgres" {
		err = exec("UPDATE "+events+" e SET part = k.t FROM unnest(?::int[], ?::bigint[], ?::int[]) AS k (f, seq, t) WHERE e.part = k.f AND e.seq = k.seq",
			dialect.IntArray(from), dialect.IntArray(seqs), dialect.IntArray(to))
	} else {
		var b strings.Builder
		for _, p := range batch {
			fmt.Fprintf(&b, " WHEN %d THEN %d", p.seq, p.to)
		}
		in, args := r.dialect.IntsIn("seq", seqs)
		err = exec("UPDATE "+events+" SET part = CASE seq"+b.String()+" ELSE part END WHERE "+in, args...)
	}
	if err != nil {
		return err
	}
	for _, p := range batch {
		if !p.pending {
			continue
		}
		// It came past the fence. The partition's next owner begins at it; one who has it now finds it with the next sweep.
		if err := exec("UPDATE "+partitions+" SET low = ? WHERE part = ? AND low >= ?", p.seq-1, p.to, p.seq); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (r *repartition) scan(ctx context.Context, q dialect.Queryer, query string, args []any, scan func(*sql.Rows) error) (err error) {
	return scanRows(ctx, q, r.dialect.Rebind(query), args, scan)
}

// scanRows calls scan for each row.
func scanRows(ctx context.Context, q dialect.Queryer, query string, args []any, scan func(*sql.Rows) error) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readLayout reads the partitions and the last number of one.
func readLayout(ctx context.Context, d dialect.Dialect, q dialect.Queryer, t Tables) (l layout, last int, err error) {
	query := "SELECT COUNT(*), COALESCE(MIN(part), 0), COALESCE(MAX(part), 0) FROM " + d.Quote(t.Partitions)
	err = scanRows(ctx, q, query, nil, func(rows *sql.Rows) error { return rows.Scan(&l.count, &l.first, &last) })
	if err != nil {
		return layout{}, 0, fmt.Errorf("reading the partitions: %w", err)
	}
	return l, last, nil
}

// fenceName begins the names of the fences of an events table.
func fenceName(t Tables) string {
	_, events := dialect.SplitName(t.Events)
	return events + "_part_"
}

// fence refuses events of the partitions before next. Its name says which, so that a call that goes on finds its own; that of an earlier change says
// less and stays, since no syntax to drop it is common to the releases of MySQL and MariaDB.
func (r *repartition) fence(ctx context.Context, q dialect.Queryer, next layout) error {
	name := fmt.Sprintf("%s%d", fenceName(r.tables), next.first)
	if err := r.dialect.Fence(ctx, q, r.tables.Events, name, next.first); err != nil {
		return fmt.Errorf("refusing events of the old partitions: %w", err)
	}
	return nil
}

// fenced says by ErrRepartitioned that it was a fence that refused events. Its name, which we chose, is all that three drivers have in common.
func (in *instance) fenced(err error) error {
	if strings.Contains(err.Error(), fenceName(in.tables)) {
		return fmt.Errorf("%w: %w", ErrRepartitioned, err)
	}
	return err
}
