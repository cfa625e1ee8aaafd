package dedup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/utils"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// TestStatementsThatEndTheTransaction are refused before they run: what follows would be committed by itself, and so would the record.
func TestStatementsThatEndTheTransaction(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		statements := []string{"ROLLBACK", "commit;", " -- done\n/* really */ COMMIT", "Rollback Work", "BEGIN", "START TRANSACTION", "END", "ABORT", "PREPARE TRANSACTION 'x'"}
		if env.Name == "mariadb" {
			statements = append(statements, "CREATE TABLE t (id int)", "TRUNCATE effects", "SET @@autocommit=1", "drop table effects")
		}
		for _, prepared := range []bool{false, true} {
			b := setup(t, env, dedup.Config{}, &gorm.Config{PrepareStmt: prepared})
			for i, statement := range statements {
				id := fmt.Sprint(prepared, i)
				before := b.effects(t)
				err := b.deliver(t.Context(), id, func(msg *message.Message) error {
					if err := write(msg); err != nil {
						return err
					}
					return dedup.Tx(msg.Context()).Exec(statement).Error
				})
				require.ErrorIs(t, err, dedup.ErrEndsTransaction, statement)
				assert.Equal(t, before, b.effects(t), statement)
				// A row has no error but that of a context, so the handler's is explained.
				err = b.deliver(t.Context(), id, func(msg *message.Message) error {
					return dedup.Tx(msg.Context()).Raw(statement).Row().Scan(new(int))
				})
				require.ErrorIs(t, err, dedup.ErrEndsTransaction, statement)
				// A handler that passes over it has not ended anything.
				require.NoError(t, b.deliver(t.Context(), id, func(msg *message.Message) error {
					tx := dedup.Tx(msg.Context())
					var n int
					_ = tx.Exec(statement)
					require.ErrorIs(t, tx.Raw(statement).Row().Scan(&n), context.Canceled)
					return tx.Create(&effect{MessageID: id}).Error
				}), statement)
				assert.Equal(t, before+1, b.effects(t), statement)
				require.NoError(t, b.deliver(t.Context(), id, forbidden(t)))
			}
			b.idle(t)
		}
	})
}

// TestStatementsThatDoNotEndIt look like some that do.
func TestStatementsThatDoNotEndIt(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			tx := dedup.Tx(msg.Context())
			for _, statement := range []string{"SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s", "CREATE TEMPORARY TABLE begin_commit (id int)", "DROP TABLE begin_commit"} {
				if env.Name == "mariadb" {
					statement = strings.Replace(statement, "DROP TABLE", "DROP TEMPORARY TABLE", 1)
				}
				if err := tx.Exec(statement).Error; err != nil {
					return err
				}
			}
			return write(msg)
		}))
		assert.EqualValues(t, 1, b.effects(t))
		assert.EqualValues(t, 1, b.records(t))
	})
}

// inDeadlock makes the transaction of the handler the victim of a deadlock, by its last statement, and returns the error of that.
func inDeadlock(t *testing.T, b *bundle, tx *gorm.DB, last func(tx *gorm.DB) error) error {
	t.Helper()
	other := b.db.Begin()
	defer other.Rollback()
	// The heavier one survives.
	for i := range 50 {
		require.NoError(t, other.Create(&effect{Consumer: "other", MessageID: fmt.Sprint(i)}).Error)
	}
	require.NoError(t, other.Exec("UPDATE effects SET message_id = 'x' WHERE id = 1").Error)
	if err := tx.Exec("UPDATE effects SET message_id = 'y' WHERE id = 2").Error; err != nil {
		return err
	}
	waits := make(chan error, 1)
	go func() { waits <- other.Exec("UPDATE effects SET message_id = 'x' WHERE id = 2").Error }()
	b.awaitUpdate(t)
	err := last(tx)
	require.NoError(t, <-waits)
	return err
}

func (b *bundle) awaitUpdate(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int64
		return b.db.Raw(`SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE effects%' AND time_ms > 300`).Scan(&n).Error == nil && n > 0
	}, patience, 20*time.Millisecond, "nobody waits for a row")
}

// TestADeadlockThatIsPassedOver: InnoDB rolls all of a transaction back, with the record. What follows would be committed one by one, and happen
// again with the next delivery.
func TestADeadlockThatIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, prepared := range []bool{false, true} {
		t.Run(fmt.Sprint("prepared=", prepared), func(t *testing.T) {
			t.Parallel()
			for name, handlerOf := range map[string]func(once func(tx *gorm.DB) error) message.HandlerFunc{
				"ignored": func(once func(tx *gorm.DB) error) message.HandlerFunc {
					return consumer(func(msg *message.Message) error {
						_ = once(dedup.Tx(msg.Context()))
						_ = write(msg)
						return nil
					})
				},
				"told as the handler's own": func(once func(tx *gorm.DB) error) message.HandlerFunc {
					return consumer(func(msg *message.Message) error {
						if once(dedup.Tx(msg.Context())) != nil {
							return errHandler
						}
						return write(msg)
					})
				},
				"tried again in a savepoint": func(once func(tx *gorm.DB) error) message.HandlerFunc {
					return middleware.Retry{MaxRetries: 3}.Middleware(consumer(func(msg *message.Message) error {
						return dedup.Tx(msg.Context()).Transaction(func(tx *gorm.DB) error {
							if err := once(tx); err != nil {
								return err
							}
							return tx.Create(&effect{Consumer: "stock", MessageID: "m1"}).Error
						})
					}))
				},
			} {
				b := setup(t, testenv.MariaDB(t), dedup.Config{AnyOrder: true}, &gorm.Config{PrepareStmt: prepared})
				require.NoError(t, b.db.Create(&[]effect{{ID: 1}, {ID: 2}}).Error)
				victim := true
				h := b.d.Middleware(handlerOf(func(tx *gorm.DB) error {
					if !victim {
						return nil
					}
					victim = false
					return inDeadlock(t, b, tx, func(tx *gorm.DB) error { return tx.Exec("UPDATE effects SET message_id = 'y' WHERE id = 1").Error })
				}))
				_, err := h(message.NewMessage("m1", nil))
				require.ErrorIs(t, err, dedup.ErrDatabase, name)
				require.ErrorContains(t, err, "1213", name)
				require.NotErrorIs(t, err, dedup.ErrEndedByHandler)
				assert.EqualValues(t, 2, b.effects(t), name)
				assert.Zero(t, b.records(t), name)
				for range 2 {
					_, err = h(message.NewMessage("m1", nil))
					require.NoError(t, err, name)
				}
				assert.EqualValues(t, 3, b.effects(t), name)
				b.idle(t)
			}
		})
	}
}

// TestADeadlockAmongRows: errors that come with the rows of a statement, those that GORM reads and those that the handler does.
func TestADeadlockAmongRows(t *testing.T) {
	t.Parallel()
	reads := map[string]func(tx *gorm.DB) error{
		"find": func(tx *gorm.DB) error {
			return tx.Clauses(clause.Locking{Strength: "UPDATE"}).Find(&effect{}, 1).Error
		},
		"raw scan": func(tx *gorm.DB) error {
			return tx.Raw("SELECT * FROM effects WHERE id = 1 FOR UPDATE").Scan(&effect{}).Error
		},
		"rows": func(tx *gorm.DB) error {
			rows, err := tx.Raw("SELECT * FROM effects WHERE id = 1 FOR UPDATE").Rows()
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				t.Error("a row came")
			}
			return rows.Err()
		},
		"row": func(tx *gorm.DB) error {
			return tx.Raw("SELECT id FROM effects WHERE id = 1 FOR UPDATE").Row().Scan(new(int))
		},
		"returning": func(tx *gorm.DB) error { return tx.Clauses(clause.Returning{}).Where("id = 1").Delete(&effect{}).Error },
		"prepared": func(tx *gorm.DB) error {
			return tx.Session(&gorm.Session{PrepareStmt: true}).Exec("UPDATE effects SET message_id = 'y' WHERE id = 1").Error
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, testenv.MariaDB(t), dedup.Config{})
			require.NoError(t, b.db.Create(&[]effect{{ID: 1}, {ID: 2}}).Error)
			err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				require.ErrorContains(t, inDeadlock(t, b, dedup.Tx(msg.Context()), read), "1213")
				return nil
			})
			require.ErrorIs(t, err, dedup.ErrDatabase)
			assert.Zero(t, b.records(t))
			require.NoError(t, b.deliver(t.Context(), "m1", write))
		})
	}
}

// places is a logger that notes where GORM says that statements come from.
type places struct {
	logger.Interface

	seen []string
}

func (p *places) Trace(context.Context, time.Time, func() (string, int64), error) {
	p.seen = append(p.seen, utils.FileWithLineNum())
}

// TestLogsNameTheHandler, and not what stands between it and the logger.
func TestLogsNameTheHandler(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		p := &places{Interface: logger.Discard}
		d, err := dedup.New(b.db.Session(&gorm.Session{Logger: p}), dedup.Config{Consumer: "stock"})
		require.NoError(t, err)
		_, err = d.Middleware(consumer(func(msg *message.Message) error {
			return dedup.Tx(msg.Context()).Create(&effect{}).Error
		}))(message.NewMessage("m1", nil))
		require.NoError(t, err)
		require.Len(t, p.seen, 1)
		assert.Contains(t, p.seen[0], "guard_test.go:")
	})
}
