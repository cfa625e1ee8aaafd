package doctest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestRetentionStatements runs the statement that getting-started gives for each database.
func TestRetentionStatements(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/getting-started.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```sql\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	statements := map[string]string{}
	var title string
	for line := range strings.Lines(block) {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			title = strings.TrimSpace(name)
			continue
		}
		statements[title] += line
	}
	titles := map[string]string{"postgres": "PostgreSQL", "mariadb": "MySQL and MariaDB", "sqlite": "SQLite"}
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		for _, payload := range []string{"old", "new", "pending"} {
			require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "a.happened", Payload: payload}))
		}
		ago := map[string]string{
			"postgres": "now() - interval '%d days'", "mariadb": "UTC_TIMESTAMP(6) - INTERVAL %d DAY", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-%d days')",
		}[db.Name]
		for payload, days := range map[string]string{"old": "8", "new": "6"} {
			set := "UPDATE outbox_events SET processed_at = " + strings.Replace(ago, "%d days", days+" days", 1)
			set = strings.Replace(set, "%d DAY", days+" DAY", 1)
			require.NoError(t, g.Exec(set+" WHERE payload = ?", []byte(payload)).Error)
		}
		statement := statements[titles[db.Name]]
		require.NotEmpty(t, statement)
		require.NoError(t, g.Exec(strings.TrimSuffix(strings.TrimSpace(statement), ";")).Error)
		var left []string
		require.NoError(t, g.Raw("SELECT payload FROM outbox_events ORDER BY seq").Scan(&left).Error)
		assert.Equal(t, []string{"new", "pending"}, left)
	})
}
