package relay_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

// openPartitioned is open with events in PostgreSQL partitions, as docs/postgres_partitions.sql has it, of size numbers each.
func openPartitioned(t testing.TB, db testenv.Database, size int) *gorm.DB {
	t.Helper()
	g := open(t, db)
	partitionTable(t, g, size)
	return g
}

func partitionTable(t testing.TB, g *gorm.DB, size int) {
	t.Helper()
	text, err := os.ReadFile("../docs/postgres_partitions.sql")
	require.NoError(t, err)
	script := strings.Replace(string(text), `SELECT "outbox_events_extend"();`, fmt.Sprintf(`SELECT "outbox_events_extend"(%d, 3);`, size), 1)
	testenv.RunScript(t, g, script)
}

func call(t testing.TB, g *gorm.DB, query string, args ...any) (out sql.NullString) {
	t.Helper()
	require.NoError(t, g.Raw(query, args...).Row().Scan(&out))
	return out
}

// TestPartitionedTable takes an outbox that is in use through the option: order over ranges, with writers beside each
// other, extending, retries, replay, another number of partitions, and dropping whole ranges.
func TestPartitionedTable(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		pub := newRecorder()
		add(t, g, series("k", "k", 30)...)
		drain(t, g, pub, quick())
		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 32))
		partitionTable(t, g, 100)
		require.NoError(t, gormoutbox.Check(t.Context(), g))

		bad := newPoison("bad0")
		pub.fail = bad.fail
		c := quick()
		c.Retention = relay.KeepForever
		stop := start(t, g, pub, c)
		add(t, g, series("bad", "bad", 3)...)
		for i := range 25 {
			add(t, g, series("k", fmt.Sprint("k", i, "-"), 10)...)
			if i%10 == 0 {
				assert.Equal(t, "1", call(t, g, "SELECT outbox_events_extend(100, 3)").String)
			}
		}
		bad.cure()
		pub.waitFor(t, "bad2")
		pub.wait(t, 283)
		eventually(t, "all is settled", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
		})
		stop()
		assert.Equal(t, []string{"bad0", "bad1", "bad2"}, pub.of("bad"))
		for i := range 25 {
			assert.Equal(t, payloadsOf(fmt.Sprint("k", i, "-"), 10), pub.of(fmt.Sprint("k", i, "-")))
		}
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events_default"))

		o, err := relay.NewOperator(g, "")
		require.NoError(t, err)
		n, err := o.Replay(t.Context(), relay.ReplayFilter{AggregateType: "a", AggregateID: "bad"})
		require.NoError(t, err)
		assert.EqualValues(t, 3, n)
		assert.False(t, call(t, g, "SELECT outbox_events_detach(interval '1 day')").Valid, "all are young")
		drain(t, g, pub, c)

		require.NoError(t, gormoutbox.Repartition(t.Context(), g, "", 8))
		add(t, g, series("k", "after", 3)...)
		drain(t, g, pub, c)
		assert.Equal(t, payloadsOf("after", 3), pub.of("after"))

		exec(t, g, "UPDATE outbox_events SET processed_at = '2001-01-01'")
		first := call(t, g, "SELECT outbox_events_detach()")
		assert.Equal(t, "outbox_events_first", first.String)
		assert.Equal(t, "true", call(t, g, "SELECT outbox_events_drop(?)", first.String).String)
		// One becomes pending when its range is out already: it comes back.
		second := call(t, g, "SELECT outbox_events_detach()")
		assert.Equal(t, "outbox_events_31", second.String)
		exec(t, g, "UPDATE outbox_events_31 SET processed_at = NULL WHERE seq = 40")
		assert.Equal(t, "false", call(t, g, "SELECT outbox_events_drop(?)", second.String).String)
		assert.Equal(t, 1, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE seq = 40"))
		exec(t, g, "UPDATE outbox_events SET processed_at = '2001-01-01'")
		for range 2 { // 31 to 130 and 131 to 230
			assert.Equal(t, "true", call(t, g, "SELECT outbox_events_drop(outbox_events_detach())").String)
		}
		assert.False(t, call(t, g, "SELECT outbox_events_detach()").Valid, "numbers of the others are not used up")
		assert.Equal(t, 231, countRows(t, g, "SELECT MIN(seq) FROM outbox_events"))
		add(t, g, series("k", "end", 3)...)
		drain(t, g, pub, c)
		assert.Equal(t, payloadsOf("end", 3), pub.of("end"))
		require.NoError(t, gormoutbox.Check(t.Context(), g))
	})
}

// TestOrderInAPartitionedTable is TestOrderWithLateCommits over twenty ranges.
func TestOrderInAPartitionedTable(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, db testenv.Database) {
		g := openPartitioned(t, db, orderEvents/20)
		_ = call(t, g, "SELECT outbox_events_extend(?, 25)", orderEvents/20)
		orderWithLateCommits(t, db, g)
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events_default"))
	})
}

// TestPartitionedTableWithoutRanges: nobody extends. Nothing fails and nothing is late; later ranges stand behind the default one.
func TestPartitionedTableWithoutRanges(t *testing.T) {
	t.Parallel()
	testenv.EachPostgres(t, func(t *testing.T, db testenv.Database) {
		g := openPartitioned(t, db, 10)
		pub := newRecorder()
		add(t, g, series("k", "k", 100)...)
		assert.Equal(t, 100-30, countRows(t, g, "SELECT COUNT(*) FROM outbox_events_default"))
		assert.NotEqual(t, "0", call(t, g, "SELECT outbox_events_extend(10, 3)").String)
		add(t, g, series("k", "l", 100)...)
		drain(t, g, pub, quick())
		assert.Equal(t, append(payloadsOf("k", 100), payloadsOf("l", 100)...), pub.payloads())
	})
}

func payloadsOf(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}
