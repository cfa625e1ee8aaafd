package dedup_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// leavesNothing checks that neither record nor effect is there and that m1 can still be handled.
func (b *bundle) leavesNothing(t *testing.T) {
	t.Helper()
	b.idle(t)
	assert.Zero(t, b.effects(t))
	assert.Zero(t, b.records(t))
	require.NoError(t, b.deliver(t.Context(), "m1", write))
	assert.EqualValues(t, 1, b.effects(t))
}

func TestPanicRollsBackAndGoesOn(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		boom := &struct{ text string }{"boom"}
		assert.PanicsWithValue(t, boom, func() {
			_ = b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				require.NoError(t, write(msg))
				panic(boom)
			})
		})
		b.returned(t)
		assert.Equal(t, dedup.Stats{Failed: 1}, b.d.Stats())
		b.leavesNothing(t)
	})
}

func TestGoexitRollsBack(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				assert.NoError(t, write(msg))
				runtime.Goexit()
				return nil
			})
		}()
		isDone(t, done, "the handler")
		b.leavesNothing(t)
	})
}

func TestProducedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		produced, err := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			require.NoError(t, write(msg))
			return message.Messages{message.NewMessage("p1", nil), message.NewMessage("p2", nil)}, nil
		})(message.NewMessage("m1", nil))
		b.returned(t)
		require.ErrorIs(t, err, dedup.ErrProducedMessages)
		refused, ok := errors.AsType[*dedup.ProducedMessagesError](err)
		require.True(t, ok)
		assert.Equal(t, "stock", refused.Consumer)
		assert.Equal(t, 2, refused.Count)
		assert.ErrorContains(t, err, "register the plugin")
		assert.Empty(t, produced)
		b.leavesNothing(t)
	})
}

func TestHandlerErrorWinsOverProducedMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.SQLite(t), dedup.Config{})
	produced, err := b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage("p1", nil)}, fails(msg)
	})(message.NewMessage("m1", nil))
	require.ErrorIs(t, err, errHandler)
	assert.Empty(t, produced)
	b.leavesNothing(t)
}

// A deferred constraint fails at the commit.
func TestFailedCommitIsReturned(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, fresh(t), dedup.Config{})
			require.NoError(t, b.db.Exec(`CREATE TABLE parents (id integer PRIMARY KEY)`).Error)
			require.NoError(t, b.db.Exec(`CREATE TABLE children (parent_id integer REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)`).Error)
			err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				require.NoError(t, write(msg))
				return dedup.Tx(msg.Context()).Exec(`INSERT INTO children (parent_id) VALUES (7)`).Error
			})
			require.ErrorContains(t, err, `dedup: committing message "m1" of consumer "stock"`)
			assert.NotErrorIs(t, err, dedup.ErrDatabase)
			assert.Equal(t, dedup.Stats{Failed: 1}, b.d.Stats())
			b.leavesNothing(t)
		})
	}
}

// The server ends the connection while the handler works, which notices it itself or does not.
func TestLostConnectionIsReturned(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fresh      func(testing.TB) testenv.Database
		self, kill string
	}{
		"postgres": {testenv.Postgres, "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(?, 10000)"},
		"mariadb":  {testenv.MariaDB, "SELECT connection_id()", "KILL CONNECTION ?"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tt.fresh(t), dedup.Config{})
			killed := func(msg *message.Message) {
				require.NoError(t, write(msg))
				var id int64
				require.NoError(t, dedup.Tx(msg.Context()).Raw(tt.self).Scan(&id).Error)
				require.NoError(t, b.db.Exec(tt.kill, id).Error)
			}
			err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				killed(msg)
				return nil
			})
			require.ErrorContains(t, err, "dedup: committing")
			require.ErrorIs(t, err, dedup.ErrDatabase)
			err = b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				killed(msg)
				return write(msg)
			})
			require.ErrorIs(t, err, dedup.ErrDatabase)
			assert.NotContains(t, err.Error(), "dedup: the database failed", "an error reads as before")
			err = b.deliver(t.Context(), "m1", fails)
			require.ErrorIs(t, err, errHandler)
			require.NotErrorIs(t, err, dedup.ErrDatabase)
			b.leavesNothing(t)
		})
	}
}

// An error that a handler ignores has aborted the transaction on PostgreSQL.
func TestIgnoredErrorDoesNotCountAsHandled(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{})
	err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
		require.NoError(t, write(msg))
		assert.Error(t, dedup.Tx(msg.Context()).Exec("SELECT nonsense").Error)
		return nil
	})
	require.ErrorContains(t, err, "dedup: committing")
	b.leavesNothing(t)
}

func TestHandlerThatRollsBackItself(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			require.NoError(t, write(msg))
			return dedup.Tx(msg.Context()).Rollback().Error
		})
		require.ErrorIs(t, err, sql.ErrTxDone)
		b.leavesNothing(t)
	})
}

func TestMissingTable(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		require.NoError(t, b.db.Exec("DROP TABLE processed_events").Error)
		err := b.deliver(t.Context(), "m1", forbidden(t))
		require.ErrorContains(t, err, "processed_events")
		require.ErrorIs(t, err, dedup.ErrDatabase)
		b.idle(t)
	})
}

func TestNested(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		twice := b.d.Middleware(b.d.Middleware(consumer(forbidden(t))))
		_, err := twice(message.NewMessage("m1", nil))
		require.ErrorIs(t, err, dedup.ErrNested)
		b.leavesNothing(t)

		// Another consumer's middleware on the same message is nested as well.
		other, err := dedup.New(b.db, dedup.Config{Consumer: "billing"})
		require.NoError(t, err)
		_, err = b.d.Middleware(other.Middleware(consumer(forbidden(t))))(message.NewMessage("m2", nil))
		require.ErrorIs(t, err, dedup.ErrNested)
		// So is a copy of the message.
		_, err = b.d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			return b.d.Middleware(consumer(forbidden(t)))(msg.CopyWithContext())
		})(message.NewMessage("m2", nil))
		require.ErrorIs(t, err, dedup.ErrNested)
		b.idle(t)
	})
}

// Pub/Subs in memory may hand the context of a handler to another message.
func TestInheritedContextIsNotNested(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		var published *message.Message
		require.NoError(t, b.deliver(t.Context(), "m1", func(msg *message.Message) error {
			published = message.NewMessageWithContext(msg.Context(), "m2", nil)
			if env.Name != "sqlite" { // which has one writer
				assert.NoError(t, b.deliver(msg.Context(), "m3", write))
			}
			return write(msg)
		}))
		_, err := b.d.Middleware(consumer(write))(published)
		require.NoError(t, err)
		again := message.NewMessageWithContext(published.Context(), "m1", nil)
		_, err = b.d.Middleware(consumer(forbidden(t)))(again)
		require.NoError(t, err, "a duplicate, not nested: the transaction of the context has ended")
		var ids []string
		require.NoError(t, b.db.Model(&effect{}).Order("message_id").Pluck("message_id", &ids).Error)
		if env.Name != "sqlite" {
			assert.Equal(t, []string{"m1", "m2", "m3"}, ids)
		} else {
			assert.Equal(t, []string{"m1", "m2"}, ids)
		}
	})
}

// The database drops the record without an error: to ack then would lose the message.
func TestSuppressedInsertIsNoDuplicate(t *testing.T) {
	t.Parallel()
	suppress := map[string][]string{
		"postgres": {
			`CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
			`CREATE TRIGGER suppress BEFORE INSERT ON processed_events FOR EACH ROW EXECUTE FUNCTION suppress()`,
		},
		"mariadb": {`ALTER TABLE processed_events PARTITION BY LIST COLUMNS (consumer) (PARTITION nobody VALUES IN ('nobody'))`},
		"sqlite":  {`CREATE TRIGGER suppress BEFORE INSERT ON processed_events BEGIN SELECT RAISE(IGNORE); END`},
	}
	testenv.Each(t, func(t *testing.T, env testenv.Database) {
		b := setup(t, env, dedup.Config{})
		for _, statement := range suppress[env.Name] {
			require.NoError(t, b.db.Exec(statement).Error)
		}
		require.ErrorIs(t, b.deliver(t.Context(), "m1", forbidden(t)), dedup.ErrNotRecorded)
		b.idle(t)
	})
}

// TestALostConnectionThatIsPassedOver: the commit finds out, and it is nobody's fault but the database's.
func TestALostConnectionThatIsPassedOver(t *testing.T) {
	t.Parallel()
	serverDatabases(t, func(t *testing.T, env testenv.Database) {
		kill := map[string]string{"postgres": "SELECT pg_terminate_backend(pg_backend_pid())", "mariadb": "KILL CONNECTION_ID()"}
		b := setup(t, env, dedup.Config{})
		for _, further := range []bool{false, true} {
			err := b.deliver(t.Context(), "m1", func(msg *message.Message) error {
				tx := dedup.Tx(msg.Context())
				_ = tx.Exec(kill[env.Name])
				if further {
					_ = tx.Exec("SELECT 1")
				}
				return nil
			})
			require.ErrorIs(t, err, dedup.ErrDatabase, "%v", further)
		}
		assert.Zero(t, b.records(t))
	})
}

// TestNoConnectionBehindADuplicate: the wait for one ends with the message's context, and that is not the handler's failure either.
func TestNoConnectionBehindADuplicate(t *testing.T) {
	t.Parallel()
	b := setup(t, testenv.Postgres(t), dedup.Config{})
	for range 2 {
		require.NoError(t, b.deliver(t.Context(), "m1", write))
	}
	b.pool(t).SetMaxOpenConns(1)
	conn, err := b.pool(t).Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := b.deliver(ctx, "m2", forbidden(t))
		cancel()
		require.ErrorIs(t, err, dedup.ErrDatabase)
	}
}
