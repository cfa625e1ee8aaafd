package gormoutbox_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// statements is a connection pool that writes down what goes to the database, by the first word and table.
type statements struct {
	*sql.DB
	log []string
}

func (s *statements) note(query string) {
	words := strings.Fields(strings.NewReplacer(`"`, "", "`", "").Replace(query))
	verb, table := words[0], ""
	for i, w := range words {
		if (w == "FROM" || w == "INTO" || w == "UPDATE") && i+1 < len(words) {
			table = " " + words[i+1]
			break
		}
	}
	s.log = append(s.log, verb+table)
}

func (s *statements) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := s.DB.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	s.log = append(s.log, "BEGIN")
	return &statementsTx{tx, s}, nil
}

func (s *statements) GetDBConn() (*sql.DB, error) { return s.DB, nil }

type statementsTx struct {
	*sql.Tx
	s *statements
}

func (t *statementsTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	t.s.note(query)
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *statementsTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.s.note(query)
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *statementsTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	t.s.note(query)
	return t.Tx.QueryRowContext(ctx, query, args...)
}

func (t *statementsTx) Commit() error {
	t.s.log = append(t.s.log, "COMMIT")
	return t.Tx.Commit()
}

// watched puts a statements pool below g.
func watched(t *testing.T, g *gorm.DB) *statements {
	t.Helper()
	pool, err := g.DB()
	require.NoError(t, err)
	s := &statements{DB: pool}
	g.ConnPool = s
	g.Statement.ConnPool = s
	return s
}

// A save costs one INSERT more, however many rows it has, where the database returns the rows that it writes; else
// one read more.
func TestStatementsOfASave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Order{})
			require.NoError(t, g.Create(newOrder()).Error) // reads the partition count
			s := watched(t, g)
			many := make([]Order, 100)
			for i := range many {
				many[i].ID = uuid.New()
			}
			o := newOrder()
			reads := map[string]map[string]bool{
				"mysql": {"create": true, "update": true, "delete": true}, "mariadb": {"update": true}, "postgres": {}, "sqlite": {},
			}[db.Name]
			for _, step := range []struct {
				op   string // of which the read may fall away
				run  func() error
				want []string
			}{
				{"create", func() error { return g.Create(o).Error }, []string{"BEGIN", "INSERT orders", "SELECT orders", "INSERT outbox_events", "COMMIT"}},
				{"create", func() error { return g.Create(&many).Error }, []string{"BEGIN", "INSERT orders", "SELECT orders", "INSERT outbox_events", "COMMIT"}},
				{"update", func() error { return g.Model(o).Update("status", "x").Error }, []string{"BEGIN", "UPDATE orders", "SELECT orders", "INSERT outbox_events", "COMMIT"}},
				{"delete", func() error { return g.Delete(&many).Error }, []string{"BEGIN", "SELECT orders", "DELETE orders", "INSERT outbox_events", "COMMIT"}},
				{"delete", func() error { return g.Transaction(func(tx *gorm.DB) error { return tx.Delete(o).Error }) }, []string{
					"BEGIN", "SELECT orders", "DELETE orders", "INSERT outbox_events", "COMMIT",
				}},
				{"append", func() error {
					return gormoutbox.Append(g, gormoutbox.Event{Type: "a", Payload: "1"}, gormoutbox.Event{Type: "b", Payload: "1"})
				}, []string{"BEGIN", "INSERT outbox_events", "COMMIT"}},
			} {
				s.log = nil
				require.NoError(t, step.run())
				want := step.want
				if !reads[step.op] {
					want = slices.DeleteFunc(want, func(line string) bool { return line == "SELECT orders" })
				}
				assert.Equal(t, want, s.log, step.op)
			}
		}
	})
}

// A statement has at most a thousand events; the order is that of the values.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		require.NoError(t, g.Create(newOrder()).Error)
		s := watched(t, g)
		many := make([]Order, 2500)
		for i := range many {
			many[i].ID = uuid.New()
		}
		require.NoError(t, g.Create(&many).Error)
		n := 0
		for _, line := range s.log {
			if line == "INSERT outbox_events" {
				n++
			}
		}
		assert.Equal(t, 3, n)
		all := events(t, g)[1:]
		require.Len(t, all, len(many))
		for i := range many {
			require.Equal(t, many[i].ID.String(), all[i].AggregateID)
		}

		big := strings.Repeat("x", 3<<20)
		s.log = nil
		require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "a", Payload: big}, gormoutbox.Event{Type: "b", Payload: big}))
		assert.Equal(t, []string{"BEGIN", "INSERT outbox_events", "INSERT outbox_events", "COMMIT"}, s.log)
	})
}

// pretender is a pool that can commit without being a transaction, as that of GORM's sharding plugin.
type pretender struct{ gorm.ConnPool }

func (p *pretender) BeginTx(context.Context, *sql.TxOptions) (gorm.ConnPool, error) { return p, nil }
func (p *pretender) Commit() error                                                  { return nil }
func (p *pretender) Rollback() error                                                { return nil }

func TestPoolThatPretends(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		around := func(tx *gorm.DB) *gorm.DB {
			in := tx.Session(&gorm.Session{NewDB: true, Context: t.Context()})
			in.Statement.ConnPool = &pretender{tx.Statement.ConnPool}
			return in
		}
		_, ok := isCapture(around(g).Create(newOrder()).Error)
		assert.True(t, ok)
		assert.Zero(t, count(t, g, &Order{}))

		require.NoError(t, g.Transaction(func(tx *gorm.DB) error { return around(tx).Create(newOrder()).Error }))
		assert.Len(t, events(t, g), 1)
		assert.Equal(t, 1, count(t, g, &Order{}))
		for _, stmt := range rejecting[g.Name()] {
			require.NoError(t, g.Exec(stmt).Error)
		}
		require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
			_ = around(tx).Create(newOrder()).Error // ignored
			return nil
		}), errTxDone)
		assert.Equal(t, 1, count(t, g, &Order{}))
		idle(t, g)
	})
}
