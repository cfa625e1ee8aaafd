package dedup_test

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestAppendOutsideOfTheMiddlewareNamesIt(t *testing.T) {
	t.Parallel()
	err := gormoutbox.Append(dedup.Tx(t.Context()), gormoutbox.Event{Type: "a.happened", Payload: "x"})
	require.ErrorIs(t, err, dedup.ErrNoMiddleware)
}

// TestAppendInAHandler is the way in which a consumer produces messages.
func TestAppendInAHandler(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		require.NoError(t, dedup.Migrate(t.Context(), g))
		d, err := dedup.New(g, dedup.Config{Consumer: "stock"})
		require.NoError(t, err)
		failure := errors.New("the handler fails once")
		fail := true
		handler := d.Middleware(func(msg *message.Message) ([]*message.Message, error) {
			if err := gormoutbox.Append(dedup.Tx(msg.Context()), gormoutbox.Event{Type: "stock.reserved", Payload: "x"}); err != nil {
				return nil, err
			}
			if fail {
				return nil, failure
			}
			return nil, nil
		})
		written := func() (n int64) {
			require.NoError(t, g.Table("outbox_events").Count(&n).Error)
			return n
		}
		_, err = handler(message.NewMessage("m", nil))
		require.ErrorIs(t, err, failure)
		assert.Zero(t, written())
		fail = false
		for range 2 {
			_, err = handler(message.NewMessage("m", nil))
			require.NoError(t, err)
			assert.EqualValues(t, 1, written())
		}
	})
}
