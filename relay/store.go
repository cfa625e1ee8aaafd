package relay

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
)

// store is the relay's side of the tables. Its statements go to the pool
// directly: GORM's callbacks and other plugins have no business here.
type store struct {
	db      *sql.DB
	dialect dialect.Dialect
	// Quoted names.
	events, partitions, held, relays string
	// bySeq is the hint for MySQL to find events by number, byPart that to find partitions one by one: an
	// UPDATE that scans the small table instead locks the rows of other relays, too.
	bySeq, byPart string
	// remove deletes published events.
	remove bool
	// pageBytes is from how many bytes on no further event is taken into a page.
	pageBytes int
	// leaseMu keeps renewals and settlements, which lock rows of the same table, from locking each other out.
	leaseMu sync.Mutex
}

func newStore(db *sql.DB, d dialect.Dialect, t gormoutbox.Tables) *store {
	s := &store{
		db: db, dialect: d,
		events: d.Quote(t.Events), partitions: d.Quote(t.Partitions), held: d.Quote(t.Held), relays: d.Quote(t.Relays),
	}
	if d.Name() == "mysql" {
		_, events := dialect.SplitName(t.Events)
		s.byPart = " FORCE INDEX (PRIMARY)"
		s.bySeq = " FORCE INDEX (" + d.Quote(events+"_seq") + ")"
	}
	return s
}

// execer is what a statement needs: the pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (s *store) exec(ctx context.Context, q execer, query string, args ...any) (int64, error) {
	res, err := q.ExecContext(ctx, s.dialect.Rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query calls scan for each row.
func (s *store) query(ctx context.Context, q execer, query string, args []any, scan func(*sql.Rows) error) (err error) {
	rows, err := q.QueryContext(ctx, s.dialect.Rebind(query), args...)
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

// transaction runs fn in a transaction at READ COMMITTED, where each statement sees
// what was committed before it.
func (s *store) transaction(ctx context.Context, fn func(*sql.Tx) error) error {
	opts := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if s.dialect.Name() == "sqlite" {
		opts = nil // its transactions are serial
	}
	tx, err := s.db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if err := fn(tx); err != nil {
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
		return err
	}
	return tx.Commit()
}

// columns are the columns of an event under the alias e, in the order of scanItem.
func (s *store) columns() string {
	return "e.seq, e.part, e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.topic, e.payload, e.headers, " +
		s.dialect.Micros("e.created_at") + ", e.attempts"
}

// itemColumns is how many columns that is.
const itemColumns = 11

// nullItem is a row with its columns as they are, which may have no event.
type nullItem struct {
	seq, part, created, attempts                              sql.NullInt64
	id, aggregateType, aggregateID, eventType, topic, headers sql.NullString
	payload                                                   []byte
}

func (n *nullItem) targets() []any {
	return []any{
		&n.seq, &n.part, &n.id, &n.aggregateType, &n.aggregateID, &n.eventType, &n.topic, &n.payload, &n.headers, &n.created, &n.attempts,
	}
}

// item turns a row into an event. What can't be read is left zero: publishing
// then fails with an error that names the column, and the event is parked like any
// other that can't be published.
func (n *nullItem) item() item {
	it := item{Record: gormoutbox.Record{
		Seq: n.seq.Int64, Part: int(n.part.Int64), AggregateType: n.aggregateType.String, AggregateID: n.aggregateID.String,
		EventType: n.eventType.String, Topic: n.topic.String, Payload: n.payload,
		CreatedAt: time.UnixMicro(n.created.Int64).UTC(), Attempts: int(n.attempts.Int64),
	}}
	if id, err := uuid.Parse(n.id.String); err == nil {
		it.ID = id
	}
	if err := json.Unmarshal([]byte(n.headers.String), &it.Headers); err != nil {
		it.ID = uuid.Nil // not ours to publish
	}
	return it
}

// scanItems reads events, and says whether it stopped early because they are many bytes.
func (s *store) scanItems(ctx context.Context, query string, args []any, into *[]item) (cut bool, err error) {
	budget := s.budget()
	err = s.query(ctx, s.db, query, args, func(rows *sql.Rows) error {
		var n nullItem
		if err := rows.Scan(n.targets()...); err != nil {
			return err
		}
		*into = append(*into, n.item())
		return budget.take(&(*into)[len(*into)-1])
	})
	return budget.cut(&err), err
}

// notHeld is the condition that the event does not stand behind a held one of its
// aggregate, so that those are not even read. An event before the held one is: it was committed
// later because its writer was not serialized, or the held one was delayed.
func (s *store) notHeld() string {
	if s.dialect.Name() == "mysql" {
		return "(h.seq IS NULL OR h.seq > e.seq)" // of besideHeld
	}
	return "NOT EXISTS (SELECT 1 FROM " + s.held + " h WHERE h.aggregate_type = e.aggregate_type AND h.aggregate_id = e.aggregate_id AND h.seq <= e.seq)"
}

// besideHeld stands behind the events e of a statement that has notHeld or pending as a condition. MariaDB runs a subquery
// anew for each row, and remembers its results in a table of its own: with it a read took two to three times as long as with this join to
// one row at most.
func (s *store) besideHeld() string {
	if s.dialect.Name() != "mysql" {
		return ""
	}
	return " LEFT JOIN " + s.held + " h ON h.aggregate_type = e.aggregate_type AND h.aggregate_id = e.aggregate_id"
}

// now is the database's clock, read once a statement, so that an index can be searched by it.
func (s *store) now() string {
	if s.dialect.Name() == "postgres" {
		return "statement_timestamp()" // of a subquery its planner expects a third of the table
	}
	return "(SELECT " + s.dialect.Now() + ")"
}

// pending is the condition that an event is to be published as soon as possible. On PostgreSQL it is hidden from the planner, see
// postgresReader.ordinary.
func (s *store) pending() string {
	open := "e.processed_at IS NULL AND e.parked_at IS NULL AND e.available_at IS NULL"
	if s.dialect.Name() == "postgres" {
		open = "CASE WHEN " + open + " THEN true ELSE false END"
	}
	return open + " AND " + s.notHeld()
}

// partsIn is the condition that expr is one of the leased partitions.
func (s *store) partsIn(expr string, leases []lease) (string, []any) {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = int64(l.part)
	}
	return s.dialect.IntsIn(expr, ids)
}

// tokensIn is the condition that expr is a token of these leases. Tokens are
// UUIDs of our own making and need no placeholder.
func tokensIn(expr string, leases []lease) string {
	seen := map[string]bool{}
	var b strings.Builder
	b.WriteString(expr + " IN (")
	for _, l := range leases {
		if seen[l.token] {
			continue
		}
		if len(seen) > 0 {
			b.WriteByte(',')
		}
		seen[l.token] = true
		b.WriteString("'" + l.token + "'")
	}
	b.WriteByte(')')
	return b.String()
}
