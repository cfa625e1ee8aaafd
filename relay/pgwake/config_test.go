package pgwake_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/relay/pgwake"
)

// problems are the fields of all mistakes in an error.
func problems(t testing.TB, err error) []string {
	t.Helper()
	var fields []string
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case nil:
	case *pgwake.ConfigError:
		assert.NotEmpty(t, e.Cure)
		assert.Contains(t, e.Error(), "pgwake: "+e.Field+": ")
		fields = append(fields, e.Field)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			fields = append(fields, problems(t, inner)...)
		}
	default:
		require.Fail(t, "another error", "%T %v", err, err)
	}
	return fields
}

func TestMistakesAreReportedTogether(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		config pgwake.Config
		want   []string
	}{
		{pgwake.Config{}, nil},
		{pgwake.Config{ConnConfig: parse(t, "host=db")}, nil},
		{pgwake.Config{Channel: strings.Repeat("c", 63)}, nil},
		{pgwake.Config{Channel: strings.Repeat("c", 64)}, []string{"Channel"}},
		{pgwake.Config{Channel: "a\x00"}, []string{"Channel"}},
		{pgwake.Config{Channel: "\xff"}, []string{"Channel"}},
		{pgwake.Config{Table: "a.b.c"}, []string{"Table"}},
		{pgwake.Config{ConnString: "port=x"}, []string{"ConnString"}},
		{pgwake.Config{ConnString: "host=db", ConnConfig: parse(t, "host=db")}, []string{"ConnConfig"}},
		{pgwake.Config{ConnConfig: &pgx.ConnConfig{}}, []string{"ConnConfig"}},
		{pgwake.Config{MinBackoff: 2e9, MaxBackoff: 1e9}, []string{"MinBackoff"}},
		{pgwake.Config{MaxBackoff: 1e6}, nil},
		{pgwake.Config{MinBackoff: 60e9}, nil},
		{
			pgwake.Config{Interval: -1, PingInterval: 1, Timeout: -1, RetestInterval: -1, MinBackoff: -1, MaxBackoff: -1},
			[]string{"Interval", "PingInterval", "Timeout", "RetestInterval", "MinBackoff", "MaxBackoff"},
		},
	} {
		_, err := pgwake.NewListener(tc.config)
		assert.Equal(t, tc.want, problems(t, err))
		tc.config.Table = ""
		if len(tc.want) == 1 && tc.want[0] == "Table" {
			continue
		}
		_, err = pgwake.NewNotifier(gormoutbox.New(gormoutbox.Config{}), tc.config)
		assert.Equal(t, tc.want, problems(t, err))
	}
	_, err := pgwake.NewNotifier(nil, pgwake.Config{Timeout: -1})
	assert.Equal(t, []string{"plugin", "Timeout"}, problems(t, err))
	_, err = pgwake.NewNotifier(gormoutbox.New(gormoutbox.Config{}), pgwake.Config{Table: "other"})
	assert.Equal(t, []string{"Table"}, problems(t, err))
	_, err = pgwake.NewListener(pgwake.Config{ConnString: "postgres://u:hidden@db:x/"})
	assert.NotContains(t, errors.Join(err).Error(), "hidden")
}

func parse(t testing.TB, s string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(s)
	require.NoError(t, err)
	return c
}

func TestChannelFor(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "gormoutbox:outbox_events", pgwake.ChannelFor(""))
	assert.Equal(t, "gormoutbox:app.Events", pgwake.ChannelFor("app.Events"))
	seen := map[string]string{}
	for _, schema := range []string{"", "s.", strings.Repeat("s", 63) + ".", strings.Repeat("ß", 30) + "."} {
		for _, table := range []string{"a", strings.Repeat("t", 47) + "a", strings.Repeat("t", 47) + "b", strings.Repeat("ß", 24)} {
			channel := pgwake.ChannelFor(schema + table)
			assert.LessOrEqual(t, len(channel), 63)
			assert.True(t, utf8.ValidString(channel), channel)
			assert.Empty(t, seen[channel], "shared with %s", schema+table)
			seen[channel] = schema + table
		}
	}
}
