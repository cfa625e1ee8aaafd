package bench_test

import (
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type reservation struct {
	ID    string `gorm:"size:36;primaryKey"`
	Order string `gorm:"size:36"`
}

// BenchmarkDedup compares a handler under dedup with the same handler in a transaction of its own.
func BenchmarkDedup(b *testing.B) {
	const n = 300
	for _, c := range []int{1, 8} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			eachDatabase(b, func(b *testing.B, db testenv.Database) {
				g := connections(b, db.Open(b), c)
				require.NoError(b, dedup.Migrate(b.Context(), g))
				require.NoError(b, g.AutoMigrate(&reservation{}))
				d, err := dedup.New(g, dedup.Config{Consumer: "bench", Logger: quiet})
				require.NoError(b, err)
				handler := d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
					return nil, dedup.Tx(msg.Context()).Create(&reservation{uuid.NewString(), msg.UUID}).Error
				})
				deliver := func(id string) error {
					_, err := handler(message.NewMessage(id, nil))
					return err
				}
				require.NoError(b, deliver("seen"))
				interleave(b,
					variant{name: "own_tx", run: func(b *testing.B) int {
						return parallel(b, c, n, func(int) error {
							return g.Transaction(func(tx *gorm.DB) error {
								return tx.Create(&reservation{uuid.NewString(), uuid.NewString()}).Error
							})
						})
					}},
					variant{name: "dedup", run: func(b *testing.B) int {
						return parallel(b, c, n, func(int) error { return deliver(uuid.NewString()) })
					}},
					variant{name: "duplicate", run: func(b *testing.B) int {
						return parallel(b, c, n, func(int) error { return deliver("seen") })
					}},
				)
			})
		})
	}
}
