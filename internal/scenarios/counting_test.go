package scenarios_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"sync/atomic"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// counting counts the statements of a pool, without BEGIN and COMMIT, and the rows of one aggregate that they return.
type counting struct {
	aggregate  string
	statements atomic.Int64
	rows       atomic.Int64
}

// openCounting opens a pool of n connections that counts.
func openCounting(t *testing.T, db testenv.Database, n int, aggregate string) (*gorm.DB, *counting) {
	t.Helper()
	c := &counting{aggregate: aggregate}
	var inner driver.Connector
	var dialector func(*sql.DB) gorm.Dialector
	if db.Name == "postgres" {
		config, err := pgx.ParseConfig(db.DSN)
		require.NoError(t, err)
		inner = stdlib.GetConnector(*config)
		dialector = func(pool *sql.DB) gorm.Dialector { return postgres.New(postgres.Config{Conn: pool}) }
	} else {
		config, err := mysqldriver.ParseDSN(db.DSN)
		require.NoError(t, err)
		inner, err = mysqldriver.NewConnector(config)
		require.NoError(t, err)
		dialector = func(pool *sql.DB) gorm.Dialector { return mysql.New(mysql.Config{Conn: pool}) }
	}
	pool := sql.OpenDB(&countingConnector{inner, c})
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	g, err := gorm.Open(dialector(pool), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	return g, c
}

// reset sets the counts to zero.
func (c *counting) reset() {
	c.statements.Store(0)
	c.rows.Store(0)
}

func (c *counting) query(rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	c.statements.Add(1)
	return &countingRows{rows, c, slices.Index(rows.Columns(), "aggregate_id")}, nil
}

func (c *counting) exec(result driver.Result, err error) (driver.Result, error) {
	if err == nil {
		c.statements.Add(1)
	}
	return result, err
}

type countingConnector struct {
	driver.Connector

	counting *counting
}

// Connect implements driver.Connector.
func (c *countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(wholeConn), c.counting}, nil
}

// wholeConn is what both drivers' connections can do.
type wholeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.NamedValueChecker
}

type countingConn struct {
	wholeConn

	counting *counting
}

var _ driver.Validator = (*countingConn)(nil)

// IsValid implements driver.Validator.
func (c *countingConn) IsValid() bool {
	v, ok := c.wholeConn.(driver.Validator)
	return !ok || v.IsValid()
}

// QueryContext implements driver.QueryerContext.
func (c *countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.counting.query(c.wholeConn.QueryContext(ctx, query, args))
}

// ExecContext implements driver.ExecerContext.
func (c *countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.counting.exec(c.wholeConn.ExecContext(ctx, query, args))
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.wholeConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &countingStmt{stmt.(wholeStmt), c}, nil
}

// wholeStmt is what both drivers' statements can do.
type wholeStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countingStmt struct {
	wholeStmt

	conn *countingConn
}

var _ driver.NamedValueChecker = (*countingStmt)(nil)

// CheckNamedValue implements driver.NamedValueChecker.
func (s *countingStmt) CheckNamedValue(value *driver.NamedValue) error {
	if own, ok := s.wholeStmt.(driver.NamedValueChecker); ok {
		return own.CheckNamedValue(value)
	}
	return s.conn.CheckNamedValue(value)
}

// QueryContext implements driver.StmtQueryContext.
func (s *countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.counting.query(s.wholeStmt.QueryContext(ctx, args))
}

// ExecContext implements driver.StmtExecContext.
func (s *countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.counting.exec(s.wholeStmt.ExecContext(ctx, args))
}

type countingRows struct {
	driver.Rows

	counting *counting
	column   int // of the aggregate's id, -1 if there is none
}

// Next implements driver.Rows.
func (r *countingRows) Next(into []driver.Value) error {
	if err := r.Rows.Next(into); err != nil {
		return err
	}
	if r.column < 0 {
		return nil
	}
	switch id := into[r.column].(type) {
	case string:
		if id == r.counting.aggregate {
			r.counting.rows.Add(1)
		}
	case []byte:
		if string(id) == r.counting.aggregate {
			r.counting.rows.Add(1)
		}
	}
	return nil
}
