package pgwake_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// pgbouncer starts a PgBouncer in the given mode in front of the server and returns where it is.
func pgbouncer(t testing.TB, binary, dsn, mode string) string {
	t.Helper()
	server, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	file := filepath.Join(t.TempDir(), "pgbouncer.ini")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
%s = host=%s port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
`, server.Database, server.Host, server.Port, server.User, address.Port, mode), 0o600))
	args := []string{file}
	if os.Getuid() == 0 {
		args = []string{"-u", "nobody", file} // it refuses to be root
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Log(out.String())
		}
	})
	u := url.URL{Scheme: "postgres", User: url.User(server.User), Host: address.String(), Path: "/" + server.Database, RawQuery: "sslmode=disable"}
	eventually(t, "PgBouncer answers", func() bool {
		conn, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			return false
		}
		return conn.Close(t.Context()) == nil
	})
	return u.String()
}

// TestPgBouncer is about a real one. OUTBOX_TEST_PGBOUNCER is the path of the program; what stands in for
// it otherwise is in TestAListenerThatDoesNotHearSaysSo.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("OUTBOX_TEST_PGBOUNCER")
	if binary == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("OUTBOX_TEST_PGBOUNCER is not set, which .ci/run does")
		}
		t.Skip("OUTBOX_TEST_PGBOUNCER is not set")
	}
	t.Run("transaction", func(t *testing.T) {
		t.Parallel()
		db := testenv.Postgres(t)
		g := outbox(t, db, quietPlugin)
		c := impatient(pgbouncer(t, binary, db.DSN, "transaction"))
		c.RetestInterval = time.Hour // one test
		errs := make(chan error, 10_000)
		c.OnError = func(err error) { errs <- err }
		l, err := pgwake.NewListener(c)
		require.NoError(t, err)
		run(t, l)
		require.ErrorIs(t, <-errs, pgwake.ErrDeaf)

		// The pool's connection does not go on listening.
		var listening []string
		require.NoError(t, raw(t, c.ConnString).QueryRow(t.Context(),
			"SELECT coalesce(array_agg(c), '{}') FROM pg_listening_channels() AS c", pgx.QueryExecModeExec).Scan(&listening))
		assert.Empty(t, listening)

		// The notifier works through it.
		direct := c
		direct.ConnString = db.DSN
		_, ch := startListener(t, direct)
		startNotifier(t, g, c)
		received(t, ch)
		write(t, g, "x")
		received(t, ch)
	})
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		db := testenv.Postgres(t)
		c := config(pgbouncer(t, binary, db.DSN, "session"))
		l, ch := startListener(t, c)
		hears(t, l, ch, c, db)
	})
}
