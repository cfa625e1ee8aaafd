package testenv

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// recorderConnector is where a pool over a Recorder gets its connections. It
// is its own driver.
type recorderConnector struct{ recorder *Recorder }

// Connect always succeeds; connections are numbered.
func (c recorderConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &recorderConn{recorder: c.recorder, number: c.recorder.newConn()}, nil
}

// Driver is what database/sql wants to see and does not use.
func (c recorderConnector) Driver() driver.Driver { return c }

// Open fails: a Recorder has no DSN.
func (c recorderConnector) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

type recorderConn struct {
	recorder *Recorder
	number   int
}

var (
	_ driver.QueryerContext   = (*recorderConn)(nil)
	_ driver.ExecerContext    = (*recorderConn)(nil)
	_ driver.ConnBeginTx      = (*recorderConn)(nil)
	_ driver.StmtQueryContext = recorderStmt{}
	_ driver.StmtExecContext  = recorderStmt{}
)

// QueryContext records the query and returns the rows of the answer.
func (c *recorderConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	columns, rows, _, err := c.recorder.record(c.number, query, values(args))
	if err != nil {
		return nil, err
	}
	return &recorderRows{columns: columns, rows: rows}, nil
}

// ExecContext records the statement. Its result has no LastInsertId, as that
// of SQL Server's driver.
func (c *recorderConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, _, affected, err := c.recorder.record(c.number, query, values(args))
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(affected), nil
}

// BeginTx records BEGIN, whatever the options.
func (c *recorderConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.run("BEGIN"); err != nil {
		return nil, err
	}
	return recorderTx{c}, nil
}

// Begin is never called, because there is BeginTx.
func (c *recorderConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

// Prepare records nothing: the statement is recorded when it is executed.
func (c *recorderConn) Prepare(query string) (driver.Stmt, error) {
	return recorderStmt{c, query}, nil
}

// Close records nothing.
func (c *recorderConn) Close() error { return nil }

func (c *recorderConn) run(command string) error {
	_, _, _, err := c.recorder.record(c.number, command, nil)
	return err
}

type recorderTx struct{ conn *recorderConn }

// Commit records COMMIT.
func (tx recorderTx) Commit() error { return tx.conn.run("COMMIT") }

// Rollback records ROLLBACK.
func (tx recorderTx) Rollback() error { return tx.conn.run("ROLLBACK") }

type recorderStmt struct {
	conn  *recorderConn
	query string
}

// QueryContext is that of the connection.
func (s recorderStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// ExecContext is that of the connection.
func (s recorderStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

// Query is never called, because there is QueryContext.
func (s recorderStmt) Query([]driver.Value) (driver.Rows, error) { return nil, errors.ErrUnsupported }

// Exec is never called, because there is ExecContext.
func (s recorderStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }

// NumInput leaves the number of arguments unchecked.
func (s recorderStmt) NumInput() int { return -1 }

// Close records nothing.
func (s recorderStmt) Close() error { return nil }

func values(args []driver.NamedValue) []driver.Value {
	var list []driver.Value
	for _, arg := range args {
		list = append(list, arg.Value)
	}
	return list
}

// recorderRows are the rows of an answer that are still to be read.
type recorderRows struct {
	columns []string
	rows    [][]driver.Value
}

// Columns may be none, also for a query.
func (r *recorderRows) Columns() []string { return r.columns }

// Next reads a row.
func (r *recorderRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// Close leaves the rest unread.
func (r *recorderRows) Close() error { return nil }
