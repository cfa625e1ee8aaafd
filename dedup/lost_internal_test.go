package dedup

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

func TestLost(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		driver.ErrBadConn:      true,
		mysql.ErrInvalidConn:   true,
		&net.OpError{Op: "in"}: true,
		&pgconn.PgError{Code: "57P01", Message: "terminating connection"}: true,
		&pgconn.PgError{Code: "40001", Message: "could not serialize"}:    true,
		&pgconn.PgError{Code: "23503", Message: "foreign key"}:            false,
		&pgconn.PgError{Code: "P0001", Message: "raised"}:                 false,
		&mysql.MySQLError{Number: 1062, Message: "duplicate entry"}:       false,
		pgx.ErrTxCommitRollback:                false,
		errors.New("a connection of families"): false,
	} {
		assert.Equal(t, want, lost(fmt.Errorf("committing: %w", err)), "%v", err)
	}
}
