package testenv

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

// EachPostgres runs a test on a database of its own on each PostgreSQL server, in parallel.
func EachPostgres(t *testing.T, fn func(t *testing.T, db Database)) {
	t.Helper()
	for name, create := range map[string]func(testing.TB) Database{"postgres": Postgres, "postgres18": Postgres18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, create(t))
		})
	}
}

// RunScript runs the statements of a file for psql in one transaction, as psql -1 -f does.
func RunScript(t testing.TB, g *gorm.DB, script string) {
	t.Helper()
	require.NoError(t, g.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		for _, stmt := range statements(script) {
			if _, err := tx.Statement.ConnPool.ExecContext(t.Context(), stmt); err != nil {
				t.Log(stmt)
				return err
			}
		}
		return nil
	}))
}

// statements cuts a script at ";" at the end of a line, outside of $$ quotes.
func statements(script string) (out []string) {
	var b strings.Builder
	quoted := false
	for line := range strings.Lines(script) {
		if strings.Count(line, "$$")%2 == 1 {
			quoted = !quoted
		}
		b.WriteString(line)
		if !quoted && strings.HasSuffix(strings.TrimSpace(line), ";") {
			out = append(out, b.String())
			b.Reset()
		}
	}
	return out
}
