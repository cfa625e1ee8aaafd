package testenv

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")

	for name, test := range map[string]struct {
		set, ci bool
		err     error
		want    verdict
	}{
		"default answers":              {want: use},
		"default answers in CI":        {ci: true, want: use},
		"variable answers":             {set: true, want: use},
		"variable answers in CI":       {set: true, ci: true, want: use},
		"default does not answer":      {err: down, want: skip},
		"default does not answer, CI":  {ci: true, err: down, want: fail},
		"variable does not answer":     {set: true, err: down, want: fail},
		"variable does not answer, CI": {set: true, ci: true, err: down, want: fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, judge(test.set, test.ci, test.err))
		})
	}
}

// outcome records how a test would have ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Helper()               {}
func (o *outcome) Skipf(string, ...any)  { o.skipped = true }
func (o *outcome) Fatalf(string, ...any) { o.failed = true }

func TestRequireFollowsTheEnvironment(t *testing.T) {
	down := errors.New("connection refused")
	fresh := func(probed *string) *server {
		return &server{
			name: "X", variable: "OUTBOX_TEST_X", fallback: "default",
			probe: func(_ context.Context, address string) error {
				*probed = address
				return down
			},
		}
	}

	for name, test := range map[string]struct {
		variable, ci, probed string
		want                 outcome
	}{
		"nothing set":  {probed: "default", want: outcome{skipped: true}},
		"CI":           {ci: "true", probed: "default", want: outcome{failed: true}},
		"variable set": {variable: "mine", probed: "mine", want: outcome{failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OUTBOX_TEST_X", test.variable)
			t.Setenv("CI", test.ci)
			var got outcome
			var probed string
			fresh(&probed).require(&got)
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.probed, probed)
		})
	}
}

func TestServersAreProbedForReal(t *testing.T) {
	t.Parallel()
	// Nothing listens on port 1.
	for s, address := range map[*server]string{
		&postgresServer:   "postgres://postgres@127.0.0.1:1/x?sslmode=disable",
		&postgres18Server: "postgres://postgres@127.0.0.1:1/x?sslmode=disable",
		&mariadbServer:    "outbox@tcp(127.0.0.1:1)/",
		&kafkaServer:      "127.0.0.1:1",
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			assert.Error(t, s.probe(t.Context(), address))
		})
	}
}

func TestOtherReleaseIsNotPostgres18(t *testing.T) {
	t.Parallel()
	other := postgresServer.require(t)
	var release int
	conn, err := pgx.Connect(t.Context(), other)
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // Nothing hangs on it.
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&release))
	if release == 18 {
		t.Skip("both are PostgreSQL 18")
	}
	assert.ErrorContains(t, postgres18Server.probe(t.Context(), other), "instead of 18")
}

func TestWithSearchPath(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u@127.0.0.1:5/d?sslmode=disable",
		"postgresql://u@127.0.0.1:5/d",
		"host=127.0.0.1 port=5 user=u dbname=d sslmode=disable",
	} {
		scoped, err := withSearchPath(dsn, "s1")
		require.NoError(t, err)
		config, err := pgx.ParseConfig(scoped)
		require.NoError(t, err)
		assert.Equal(t, "s1", config.RuntimeParams["search_path"], dsn)
		assert.Equal(t, "d", config.Database, dsn)
		assert.Equal(t, uint16(5), config.Port, dsn)
	}
}

func TestTopicName(t *testing.T) {
	t.Parallel()
	name := topicName("TestÄ/orders created")
	assert.Regexp(t, `^Test--orders-created-outbox_[0-9a-f]{24}$`, name)
	assert.NotEqual(t, name, topicName("TestÄ/orders created"))
	assert.Len(t, topicName(strings.Repeat("x", 300)), 249)
}
