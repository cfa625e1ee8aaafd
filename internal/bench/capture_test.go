package bench_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

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

// handRow is the outbox row that one writes by hand.
type handRow struct {
	ID            string `gorm:"size:36;primaryKey"`
	AggregateType string `gorm:"size:255"`
	AggregateID   string `gorm:"size:255"`
	EventType     string `gorm:"size:255"`
	Payload       []byte
	Headers       string
}

func newColumns() Columns {
	return Columns{ID: uuid.NewString(), Status: "placed", Customer: "a customer's name", Amount: 42}
}

func newHandRow(o plainOrder) (handRow, error) {
	payload, err := json.Marshal(o)
	return handRow{uuid.NewString(), "order", o.ID, "order.created", payload, "{}"}, err
}

// BenchmarkCapture compares a transaction with one create, or a batch of 100, with and without an event.
func BenchmarkCapture(b *testing.B) {
	for _, c := range []int{1, 8} {
		b.Run(fmt.Sprintf("create/%d", c), func(b *testing.B) {
			eachDatabase(b, func(b *testing.B, db testenv.Database) { benchmarkCreate(b, db, c, 1, 400) })
		})
	}
	b.Run("batch100/1", func(b *testing.B) {
		eachDatabase(b, func(b *testing.B, db testenv.Database) { benchmarkCreate(b, db, 1, 100, 20) })
	})
}

func benchmarkCreate(b *testing.B, db testenv.Database, c, batch, n int) {
	plain := connections(b, db.Open(b), c)
	captured := connections(b, db.Open(b), c)
	require.NoError(b, captured.Use(gormoutbox.New(gormoutbox.Config{})))
	require.NoError(b, gormoutbox.Migrate(b.Context(), captured))
	require.NoError(b, plain.AutoMigrate(&plainOrder{}, &outboxOrder{}, &handRow{}))
	fillTables(b, plain)
	interleave(b,
		variant{name: "plain", run: func(b *testing.B) int {
			return parallel(b, c, n, func(int) error {
				rows := make([]plainOrder, batch)
				for i := range rows {
					rows[i] = plainOrder{newColumns()}
				}
				return plain.Create(&rows).Error
			})
		}},
		variant{name: "by_hand", run: func(b *testing.B) int {
			return parallel(b, c, n, func(int) error {
				rows, events := make([]plainOrder, batch), make([]handRow, batch)
				for i := range rows {
					rows[i] = plainOrder{newColumns()}
					var err error
					if events[i], err = newHandRow(rows[i]); err != nil {
						return err
					}
				}
				return plain.Transaction(func(tx *gorm.DB) error {
					if err := tx.Create(&rows).Error; err != nil {
						return err
					}
					return tx.Create(&events).Error
				})
			})
		}},
		variant{name: "outbox", run: func(b *testing.B) int {
			return parallel(b, c, n, func(int) error {
				rows := make([]outboxOrder, batch)
				for i := range rows {
					rows[i] = outboxOrder{Columns: newColumns()}
				}
				return captured.Create(&rows).Error
			})
		}},
	)
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
	for _, table := range []string{"plain_orders", "outbox_orders", "hand_rows"} {
		require.NoError(b, g.Exec(analyze+table).Error)
	}
}
