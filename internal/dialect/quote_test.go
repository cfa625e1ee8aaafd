package dialect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// unquote reads quoted parts, joined by dots, back; ok is false if anything stands outside of the quotes.
func unquote(text string, quote byte) (parts []string, ok bool) {
	for {
		if text == "" || text[0] != quote {
			return nil, false
		}
		var b strings.Builder
		i := 1
		for ; i < len(text); i++ {
			if text[i] != quote {
				b.WriteByte(text[i])
				continue
			}
			if i+1 < len(text) && text[i+1] == quote {
				b.WriteByte(quote)
				i++
				continue
			}
			break
		}
		if i == len(text) {
			return nil, false
		}
		parts = append(parts, b.String())
		if i == len(text)-1 {
			return parts, true
		}
		if text[i+1] != '.' {
			return nil, false
		}
		text = text[i+2:]
	}
}

// A quoted name is one name, or two with a dot, whatever is in it, and Rebind leaves it alone.
func FuzzQuote(f *testing.F) {
	for _, name := range []string{"outbox_events", "app.outbox_events", `a"b`, "a`b.c", "", ".", "a.b.c", "a?b", `'; DROP TABLE x; --`, "ä.ß", "?"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, d := range []dialect.Dialect{dialect.Postgres{}, dialect.MySQL{}, dialect.SQLite{}} {
			quote := byte('"')
			if d.Name() == "mysql" {
				quote = '`'
			}
			quoted := d.Quote(name)
			parts, ok := unquote(quoted, quote)
			schema, table := dialect.SplitName(name)
			want := []string{table}
			if schema != "" {
				want = []string{schema, table}
			}
			assert.True(t, ok, quoted)
			assert.Equal(t, want, parts)

			bound := d.Rebind("SELECT ? FROM " + quoted + " WHERE a = '?' AND b = ?")
			if d.Name() == "postgres" {
				assert.Equal(t, "SELECT $1 FROM "+quoted+" WHERE a = '?' AND b = $2", bound)
			} else {
				assert.Contains(t, bound, quoted)
			}
		}
	})
}

func TestSplitName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{"a": {"", "a"}, "a.b": {"a", "b"}, "a.b.c": {"a.b", "c"}, ".a": {"", "a"}, "a.": {"a", ""}} {
		schema, table := dialect.SplitName(name)
		assert.Equal(t, want, [2]string{schema, table})
	}
}
