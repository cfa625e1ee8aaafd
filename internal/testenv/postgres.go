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

// postgres18Server refuses another release: its tests are about this one.
var postgres18Server = server{
	name:     "PostgreSQL 18",
	variable: defaults.Postgres18Variable,
	fallback: defaults.Postgres18,
	probe: func(ctx context.Context, dsn string) error {
		return execPostgres(ctx, dsn, `DO $$ BEGIN
			IF current_setting('server_version_num')::int / 10000 <> 18 THEN
				RAISE 'PostgreSQL % instead of 18', current_setting('server_version');
			END IF;
		END $$`)
	},
}

// Postgres returns a fresh schema of the PostgreSQL server; it is the only
// one in the search path of the DSN.
func Postgres(t testing.TB) Database {
	t.Helper()
	return newPostgres(t, "postgres", &postgresServer)
}

// Postgres18 is Postgres on another server, of release 18.
func Postgres18(t testing.TB) Database {
	t.Helper()
	return newPostgres(t, "postgres18", &postgres18Server)
}

func newPostgres(t testing.TB, name string, server *server) Database {
	t.Helper()
	dsn := server.require(t)

	schema := uniqueName()
	scoped, err := withSearchPath(dsn, schema)
	if err != nil {
		t.Fatalf("%s: %v", server.variable, err)
	}
	create(t, schema, func(ctx context.Context) error {
		return execPostgres(ctx, dsn, "CREATE SCHEMA "+schema)
	})
	drop(t, schema, func(ctx context.Context) error {
		return execPostgres(ctx, dsn, "SET lock_timeout = '15s'", "DROP SCHEMA "+schema+" CASCADE")
	})
	return Database{Name: name, DSN: scoped, dialector: postgres.Open, wire: postgresWire}
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
	if !isURL(dsn) {
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

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}
