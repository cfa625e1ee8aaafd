package bench_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Columns are those of the models that are compared.
type Columns struct {
	ID       string `gorm:"size:36;primaryKey"`
	Status   string `gorm:"size:50"`
	Customer string `gorm:"size:100"`
	Amount   int
}

type plainOrder struct{ Columns }

type outboxOrder struct {
	_ gormoutbox.Emit `outbox:"aggregate=order"`
	Columns
}

// handRow is the outbox row that one writes by hand, into a table that a relay could read.
type handRow struct {
	Part          int
	ID            string
	AggregateType string
	AggregateID   string
	EventType     string
	Topic         string
	Payload       []byte
	Headers       string
}

func (handRow) TableName() string { return gormoutbox.DefaultTable }

func newColumns() Columns {
	return Columns{ID: uuid.NewString(), Status: "placed", Customer: "a customer's name", Amount: 42}
}

func newHandRow(o plainOrder) (handRow, error) {
	payload, err := json.Marshal(o)
	return handRow{
		Part: gormoutbox.Partition("order", o.ID, gormoutbox.DefaultPartitions), ID: uuid.NewString(), AggregateType: "order", AggregateID: o.ID,
		EventType: "order.created", Payload: payload, Headers: "{}",
	}, err
}

// BenchmarkCapture compares writes with and without events.
func BenchmarkCapture(b *testing.B) {
	for _, c := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("create/%d", c), func(b *testing.B) {
			eachWriter(b, func(b *testing.B, db testenv.Database) { benchmarkCreate(b, db, c, 1, 400) })
		})
	}
	b.Run("batch100/1", func(b *testing.B) {
		eachWriter(b, func(b *testing.B, db testenv.Database) { benchmarkCreate(b, db, 1, 100, 20) })
	})
	b.Run("update1000/1", func(b *testing.B) { eachWriter(b, benchmarkUpdate) })
	b.Run("wake/1", func(b *testing.B) { eachWriter(b, benchmarkWake) })
}

// eachWriter adds MariaDB with interpolateParams, with which its driver takes one round trip for a statement instead of two.
func eachWriter(b *testing.B, fn func(b *testing.B, db testenv.Database)) {
	b.Helper()
	eachDatabase(b, fn)
	b.Run("mariadb-interpolate", func(b *testing.B) { fn(b, testenv.MariaDBInterpolate(b)) })
}

// benchmarkUpdate changes 1,000 rows by one statement.
func benchmarkUpdate(b *testing.B, db testenv.Database) {
	plain, captured := pair(b, db, 1)
	fill := make([]plainOrder, 1000)
	for _, model := range []any{&plainOrder{}, &outboxOrder{}} {
		require.NoError(b, plain.Where("1 = 1").Delete(model).Error)
		for i := range fill {
			fill[i] = plainOrder{newColumns()}
		}
		stmt := &gorm.Statement{DB: plain}
		require.NoError(b, stmt.Parse(model))
		require.NoError(b, plain.Table(stmt.Schema.Table).CreateInBatches(&fill, 500).Error)
	}
	n := 0
	update := func(g *gorm.DB, model any) int {
		n++
		return parallel(b, 1, 5, func(i int) error {
			return g.Model(model).Where("amount >= ?", 0).Update("amount", n*10+i).Error
		})
	}
	interleave(b,
		variant{name: "plain", run: func(*testing.B) int { return update(plain, &plainOrder{}) }},
		variant{name: "outbox", run: func(*testing.B) int { return update(captured, &outboxOrder{}) }},
	)
}

// benchmarkWake compares the ways in which relays hear of a commit.
func benchmarkWake(b *testing.B, db testenv.Database) {
	_, polled := pair(b, db, 1)
	helped := connections(b, db.Open(b), 1)
	require.NoError(b, helped.Use(gormoutbox.New(gormoutbox.Config{})))
	watched := connections(b, db.Open(b), 1)
	require.NoError(b, watched.Use(gormoutbox.New(gormoutbox.Config{WatchCommits: true})))
	for _, g := range []*gorm.DB{helped, watched} {
		p, err := gormoutbox.On(g)
		require.NoError(b, err)
		s := p.Subscribe()
		b.Cleanup(s.Close)
	}
	create := func(tx *gorm.DB) error { return tx.Create(&outboxOrder{Columns: newColumns()}).Error }
	run := func(fn func() error) func(b *testing.B) int {
		return func(b *testing.B) int { return parallel(b, 1, 300, func(int) error { return fn() }) }
	}
	interleave(b,
		variant{name: "polled", run: run(func() error { return polled.Transaction(create) })},
		variant{name: "helper", run: run(func() error { return gormoutbox.Transaction(helped, create) })},
		variant{name: "watched", run: run(func() error { return watched.Transaction(create) })},
	)
}

// pair opens one pool without and one with the plugin, on filled tables.
func pair(b *testing.B, db testenv.Database, c int) (plain, captured *gorm.DB) {
	b.Helper()
	plain, captured = connections(b, db.Open(b), c), connections(b, db.Open(b), c)
	require.NoError(b, captured.Use(gormoutbox.New(gormoutbox.Config{})))
	require.NoError(b, gormoutbox.Migrate(b.Context(), captured))
	require.NoError(b, plain.AutoMigrate(&plainOrder{}, &outboxOrder{}))
	fillTables(b, plain)
	return plain, captured
}

func benchmarkCreate(b *testing.B, db testenv.Database, c, batch, n int) {
	plain, captured := pair(b, db, c)
	orders := func() []plainOrder {
		rows := make([]plainOrder, batch)
		for i := range rows {
			rows[i] = plainOrder{newColumns()}
		}
		return rows
	}
	run := func(fn func() error) func(*testing.B) int {
		return func(b *testing.B) int { return parallel(b, c, n, func(int) error { return fn() }) }
	}
	variants := []variant{
		{name: "plain", run: run(func() error {
			rows := orders()
			return plain.Create(&rows).Error
		})},
		// one round trip more and no row: what no outbox can be faster than
		{name: "select1", run: run(func() error {
			rows := orders()
			return plain.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&rows).Error; err != nil {
					return err
				}
				return tx.Exec("SELECT 1").Error
			})
		})},
		{name: "by_hand", run: run(func() error { return createByHand(plain, orders()) })},
		{name: "outbox", run: run(func() error {
			rows := make([]outboxOrder, batch)
			for i := range rows {
				rows[i] = outboxOrder{Columns: newColumns()}
			}
			return captured.Create(&rows).Error
		})},
	}
	if returns := plain.Callback().Create().Clauses; slices.Contains(returns, "RETURNING") {
		// by hand with events of what the database holds, as the plugin's are
		variants = append(variants, variant{name: "by_hand_returning", run: run(func() error {
			return createByHand(plain, orders(), clause.Returning{})
		})})
	}
	interleave(b, variants...)
}

// createByHand writes rows and events in one transaction; the clauses are those of the rows.
func createByHand(g *gorm.DB, rows []plainOrder, clauses ...clause.Expression) error {
	return g.Transaction(func(tx *gorm.DB) error {
		if err := tx.Clauses(clauses...).Create(&rows).Error; err != nil {
			return err
		}
		events := make([]handRow, len(rows))
		for i := range rows {
			var err error
			if events[i], err = newHandRow(rows[i]); err != nil {
				return err
			}
		}
		return tx.Create(&events).Error
	})
}

// fillTables gives the tables rows and statistics: a database may keep the plan that it made for an
// empty table, which is no usual state and would be all that is measured.
func fillTables(b *testing.B, g *gorm.DB) {
	b.Helper()
	plain, captured, hand := make([]plainOrder, 500), make([]outboxOrder, 500), make([]handRow, 500)
	for range 20 {
		for i := range plain {
			plain[i], captured[i] = plainOrder{newColumns()}, outboxOrder{Columns: newColumns()}
			var err error
			hand[i], err = newHandRow(plain[i])
			require.NoError(b, err)
		}
		for _, rows := range []any{&plain, &captured, &hand} {
			require.NoError(b, g.Create(rows).Error) // without the plugin
		}
	}
	analyze := "ANALYZE "
	if g.Name() == "mysql" {
		analyze = "ANALYZE TABLE "
	}
	for _, table := range []string{"plain_orders", "outbox_orders", gormoutbox.DefaultTable} {
		require.NoError(b, g.Exec(analyze+table).Error)
	}
}
