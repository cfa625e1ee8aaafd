package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"gorm.io/driver/postgres"

	"github.com/gormoutbox/outbox/internal/testenv/defaults"
)

var postgresServer = server{
	name:     "PostgreSQL",
	variable: defaults.PostgresVariable,
	fallback: defaults.Postgres,
	probe: func(ctx context.Context, dsn string) error {
		return execPostgres(ctx, dsn, "SELECT 1")
	},
}

// Postgres returns a fresh schema of the PostgreSQL server; it is the only
// one in the search path of the DSN.
func Postgres(t testing.TB) Database {
	t.Helper()
	dsn := postgresServer.require(t)

	schema := uniqueName()
	scoped, err := withSearchPath(dsn, schema)
	if err != nil {
		t.Fatalf("%s: %v", defaults.PostgresVariable, err)
	}
	create(t, schema, func(ctx context.Context) error {
		return execPostgres(ctx, dsn, "CREATE SCHEMA "+schema)
	})
	drop(t, schema, func(ctx context.Context) error {
		return execPostgres(ctx, dsn, "SET lock_timeout = '15s'", "DROP SCHEMA "+schema+" CASCADE")
	})
	return Database{Name: "postgres", DSN: scoped, dialector: postgres.Open}
}

func execPostgres(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	// The context may be done; the connection is thrown away either way.
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Nothing hangs on it.
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// withSearchPath adds the setting to a connection string of either form, URL
// or keywords and values.
func withSearchPath(dsn, schema string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " search_path=" + schema, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("parsing connection URL: %w", err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}
