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
	"time"

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

// kindOfIDs is what the ids of messages are like.
type kindOfIDs struct {
	name  string
	fresh func(int) string
	// again picks one of the records to be delivered again.
	again func(ids []uuid.UUID) uuid.UUID
	// stamp makes the i-th of n ids what it is to be.
	stamp func(id *uuid.UUID, i, n int)
}

var kindsOfIDs = []kindOfIDs{
	// The worst case: each record goes to another page of the index, and those of a large table are not all in memory.
	{
		name: "random", fresh: fresh,
		again: func(ids []uuid.UUID) uuid.UUID { return ids[rand.IntN(len(ids))] },
		stamp: func(*uuid.UUID, int, int) {},
	},
	// Those of this outbox, of a month: new ones are neighbours, and what comes again is seldom old.
	{
		name: "uuidv7", fresh: func(int) string { return uuid.Must(uuid.NewV7()).String() },
		again: func(ids []uuid.UUID) uuid.UUID { return ids[len(ids)-1-rand.IntN(min(len(ids), 100_000))] },
		stamp: func(id *uuid.UUID, i, n int) {
			const month = 30 * 24 * time.Hour
			ms := time.Now().Add(-month + time.Duration(float64(month)*float64(i)/float64(n+1))).UnixMilli()
			for b := range 6 {
				id[b] = byte(ms >> (8 * (5 - b)))
			}
			id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
		},
	},
}

// BenchmarkDedupFull compares a table of records that begins empty with a full one.
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
		for _, kind := range kindsOfIDs {
			b.Run(fmt.Sprintf("%s/%s/%d", kind.name, d.name, records), func(b *testing.B) { benchmarkDedupFull(b, d.make(b), records, kind) })
		}
	}
}

func benchmarkDedupFull(b *testing.B, db testenv.Database, records int, kind kindOfIDs) {
	const emptyTable, fullTable = "events_empty", "events_full"
	g := connections(b, db.Open(b), 16)
	require.NoError(b, g.AutoMigrate(&reservation{}))
	ids := newIDs(records, kind)
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
				variant{name: "empty", run: deliver(c, n, empty, kind.fresh)},
				variant{name: "full", run: deliver(c, n, full, kind.fresh)},
				variant{name: "own_tx", run: deliver(c, n, handlers.ownTx(), kind.fresh)},
			)
		})
		b.Run(fmt.Sprintf("duplicate/%d", c), func(b *testing.B) {
			few := newIDs(n, kind)
			deliver(c, n, empty, func(i int) string { return few[i].String() })(b)
			interleave(b,
				variant{name: "empty", run: deliver(c, n, empty, func(i int) string { return few[i].String() })},
				variant{name: "full", run: deliver(c, n, full, func(int) string { return kind.again(ids).String() })},
			)
		})
	}
}

// newIDs returns UUIDs, in order.
func newIDs(n int, kind kindOfIDs) []uuid.UUID {
	random := rand.NewChaCha8([32]byte{})
	ids := make([]uuid.UUID, n)
	for i := range ids {
		_, _ = random.Read(ids[i][:]) // never fails
		kind.stamp(&ids[i], i, n)
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
