package dedup

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
)

// databaseError is an error that is ErrDatabase, too, and reads as before.
type databaseError struct{ error }

// Unwrap returns the error and ErrDatabase.
func (e *databaseError) Unwrap() []error { return []error{e.error, ErrDatabase} }

// aboutDatabase makes an error of our own statements ErrDatabase, unless it says that others are at work.
func aboutDatabase(err error) error {
	if errors.Is(err, ErrBusy) {
		return err
	}
	return &databaseError{err}
}

// invalidConnection is the text of go-sql-driver/mysql's error for a connection that has broken, which is of no type of its own.
const invalidConnection = "invalid connection"

// unavailable are the classes of SQLSTATE in which a server says that it is about to stop, has too little of something, or gave up this
// transaction for the sake of others: https://www.postgresql.org/docs/current/errcodes-appendix.html
const unavailable = "08 40 53 57 58"

// lost says whether a commit failed because of the server or the way to it. Other errors are about what was written: a
// deferred constraint, or an error that the handler has overlooked.
func lost(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, broken := range []error{driver.ErrBadConn, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, broken) {
			return true
		}
	}
	// pgx says so of connections that were closed before anything was sent.
	if unsent, ok := errors.AsType[interface {
		error
		SafeToRetry() bool
	}](err); ok && unsent.SafeToRetry() {
		return true
	}
	if state, ok := errors.AsType[interface {
		error
		SQLState() string // pgx, and others for PostgreSQL
	}](err); ok && len(state.SQLState()) == 5 {
		return strings.Contains(unavailable, state.SQLState()[:2])
	}
	return strings.HasSuffix(err.Error(), invalidConnection)
}
