package dedup_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// What a message costs on the wire, counted on the socket. A handler that inserts one row in a transaction of its own has three: BEGIN, INSERT,
// COMMIT. MySQL's driver prepares each statement unless interpolateParams is set.
const (
	// BEGIN, the record, the handler's INSERT, COMMIT.
	tripsFirst = 4
	// BEGIN, the record that conflicts, the look for it, ROLLBACK.
	tripsFirstDuplicate = 4
	// The look for the record.
	tripsDuplicate = 1
	// The look for the record in vain, and then as tripsFirst.
	tripsAfterDuplicate = 5
	// BEGIN, the record, the handler's INSERT, the look for events with those ids, one INSERT into the outbox, COMMIT,
	// however many messages are returned.
	tripsReturned = 6
)

func TestRoundTripsOfAMessage(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB) testenv.Database{testenv.Postgres, testenv.Postgres18, testenv.MariaDBInterpolate, testenv.MySQLInterpolate} {
		base := make(t)
		t.Run(base.Name, func(t *testing.T) {
			t.Parallel()
			database, trips := base.Via(t)
			b := withOutbox(t, database, gormoutbox.Config{})
			b.pool(t).SetMaxOpenConns(1)
			ctx := context.WithoutCancel(incoming(t, "first", nil).Context()) // with the publish topic

			deliver := func(handler message.HandlerFunc, id string) {
				t.Helper()
				_, err := b.d.Middleware(handler)(message.NewMessageWithContext(ctx, id, nil)) //nolint:contextcheck // The message has it.
				require.NoError(t, err)
			}
			counted := func(want int, name string, handler message.HandlerFunc, id func() string) {
				t.Helper()
				for range 2 { // drivers prepare and describe a statement that is new to a connection
					deliver(handler, id())
				}
				trips.Reset()
				deliver(handler, id())
				assert.Equal(t, want, trips.Count(), name)
			}
			fresh, again := uuid.NewString, func() string { return "again" }
			counted(tripsFirst, "first", consumer(write), fresh)
			counted(tripsDuplicate, "duplicate", consumer(write), again)
			trips.Reset()
			deliver(consumer(write), fresh())
			assert.Equal(t, tripsAfterDuplicate, trips.Count(), "first behind a duplicate")
			trips.Reset()
			deliver(consumer(write), "again")
			assert.Equal(t, tripsFirstDuplicate, trips.Count(), "the first duplicate of a row")
			deliver(consumer(write), fresh())
			returning := func(n int) message.HandlerFunc {
				return func(msg *message.Message) (produced []*message.Message, err error) {
					for range n {
						produced = append(produced, message.NewMessage(uuid.NewString(), nil))
					}
					return produced, write(msg)
				}
			}
			counted(tripsReturned, "one message returned", returning(1), fresh)
			counted(tripsReturned, "two messages returned", returning(2), fresh)

			assert.EqualValues(t, 3+1+2+3+3, b.effects(t))
			assert.Len(t, b.outbox(t), 3+6)
		})
	}
}
