package bench_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// recordsVariable says how many records BenchmarkDedupFull puts into the full table:
//
//	OUTBOX_BENCH_RECORDS=10000000 make bench ARGS='-bench DedupFull -timeout 60m'
const recordsVariable = "OUTBOX_BENCH_RECORDS"

// BenchmarkDedupFull compares a table of records that begins empty with a full one. Ids are random, which is the worst case: each record goes to
// another page of the index, and those of a large table are not all in memory. (Those of this outbox are UUIDv7: new ones are neighbours.)
func BenchmarkDedupFull(b *testing.B) {
	records := 100_000
	if text := os.Getenv(recordsVariable); text != "" {
		var err error
		records, err = strconv.Atoi(text)
		require.NoError(b, err, recordsVariable)
	}
	for _, d := range []struct {
		name string
		make func(testing.TB) testenv.Database
	}{{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}} {
		b.Run(fmt.Sprintf("%s/%d", d.name, records), func(b *testing.B) { benchmarkDedupFull(b, d.make(b), records) })
	}
}

func benchmarkDedupFull(b *testing.B, db testenv.Database, records int) {
	const emptyTable, fullTable = "events_empty", "events_full"
	g := connections(b, db.Open(b), 16)
	require.NoError(b, g.AutoMigrate(&reservation{}))
	ids := newIDs(records)
	fillRecords(b, g, emptyTable, nil)
	fillRecords(b, g, fullTable, ids)
	b.Cleanup(func() { require.NoError(b, g.Migrator().DropTable(emptyTable, fullTable)) })

	handlers := dedupHandlers{b: b, db: g}
	empty, full := handlers.dedup(emptyTable), handlers.dedup(fullTable)
	for _, c := range []int{1, 16} {
		n := messagesOf(c)
		// What is in the empty table by now is what the turns before have recorded.
		b.Run(fmt.Sprintf("first/%d", c), func(b *testing.B) {
			interleave(b,
				variant{name: "empty", run: deliver(c, n, empty, fresh)},
				variant{name: "full", run: deliver(c, n, full, fresh)},
				variant{name: "own_tx", run: deliver(c, n, handlers.ownTx(), fresh)},
			)
		})
		b.Run(fmt.Sprintf("duplicate/%d", c), func(b *testing.B) {
			few := newIDs(n)
			deliver(c, n, empty, func(i int) string { return few[i].String() })(b)
			interleave(b,
				variant{name: "empty", run: deliver(c, n, empty, func(i int) string { return few[i].String() })},
				// any of all, so seldom one that was looked for before
				variant{name: "full", run: deliver(c, n, full, func(int) string { return ids[rand.IntN(len(ids))].String() })},
			)
		})
	}
}

// newIDs returns random UUIDs, in order.
func newIDs(n int) []uuid.UUID {
	random := rand.NewChaCha8([32]byte{})
	ids := make([]uuid.UUID, n)
	for i := range ids {
		_, _ = random.Read(ids[i][:]) // never fails
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// fillRecords makes a table with these records, and statistics. Filling in order is what makes ten million a matter of minutes.
func fillRecords(b *testing.B, g *gorm.DB, table string, ids []uuid.UUID) {
	b.Helper()
	require.NoError(b, dedup.MigrateTable(b.Context(), g, table))
	var sql strings.Builder
	for chunk := range slices.Chunk(ids, 2000) {
		sql.Reset()
		sql.WriteString("INSERT INTO " + table + " (consumer, event_id) VALUES ")
		for i, id := range chunk {
			if i > 0 {
				sql.WriteByte(',')
			}
			sql.WriteString("('" + consumerName + "','" + id.String() + "')")
		}
		require.NoError(b, g.Exec(sql.String()).Error)
	}
	analyze := map[string]string{
		"postgres": "VACUUM (ANALYZE) ", // or autovacuum would do it in the middle
		"mysql":    "ANALYZE TABLE ",
		"sqlite":   "ANALYZE ",
	}
	require.NoError(b, g.Exec(analyze[g.Name()]+table).Error)
}
