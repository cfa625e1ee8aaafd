package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// signals takes what waits in the channels: "committed", "pending", both, or nothing.
func signals(s *gormoutbox.Subscription) string {
	out := ""
	select {
	case <-s.Committed():
		out += "committed"
	default:
	}
	select {
	case <-s.Pending():
		out += "pending"
	default:
	}
	return out
}

func TestWake(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			use(t, g, gormoutbox.Config{}, &Order{}, &Lang{})
			p, err := gormoutbox.On(g)
			require.NoError(t, err)
			s, other := p.Subscribe(), p.Subscribe()

			event := gormoutbox.Event{Type: "t", Payload: "1"}
			for name, step := range map[string]struct {
				run  func() error
				want string
			}{
				"create":           {func() error { return g.Create(newOrder()).Error }, "committed"},
				"two creates":      {func() error { return g.CreateInBatches([]*Order{newOrder(), newOrder()}, 1).Error }, map[bool]string{false: "pending", true: "committed"}[skip]},
				"append":           {func() error { return gormoutbox.Append(g, event) }, "committed"},
				"user transaction": {func() error { return g.Transaction(func(tx *gorm.DB) error { return tx.Create(newOrder()).Error }) }, "pending"},
				"append in it":     {func() error { return g.Transaction(func(tx *gorm.DB) error { return gormoutbox.Append(tx, event) }) }, "pending"},
				"our Transaction": {func() error {
					return gormoutbox.Transaction(g, func(tx *gorm.DB) error { return tx.Create(newOrder()).Error })
				}, "committed"},
				"our Transaction, nested": {func() error {
					return g.Transaction(func(tx *gorm.DB) error {
						return gormoutbox.Transaction(tx, func(inner *gorm.DB) error { return inner.Create(newOrder()).Error })
					})
				}, "pending"},
				"our Transaction, failing": {func() error {
					_ = gormoutbox.Transaction(g, func(tx *gorm.DB) error { return errHook })
					return nil
				}, ""},
				"no event":      {func() error { return g.Create(&Lang{Code: map[bool]string{false: "a", true: "b"}[skip]}).Error }, ""},
				"no row":        {func() error { return g.Model(newOrder()).Update("status", "x").Error }, ""},
				"ignored":       {func() error { return ignoring(g).Create(newOrder()).Error }, ""},
				"failed create": {func() error { _ = g.Create(&Order{}).Error; return nil }, ""},
			} {
				require.NoError(t, step.run(), name)
				assert.Equal(t, step.want, signals(s), name)
				assert.Equal(t, step.want, signals(other), name)
			}
			// Many events are one signal, and a closed subscription gets none.
			s.Close()
			s.Close()
			for range 3 {
				require.NoError(t, g.Create(newOrder()).Error)
			}
			assert.Empty(t, signals(s))
			assert.Equal(t, "committed", signals(other))
			assert.Empty(t, signals(other))
			other.Close()
		}
	})
}

func TestTransactionNeedsThePlugin(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	err := gormoutbox.Transaction(g, func(*gorm.DB) error {
		t.Error("the function ran")
		return nil
	})
	require.ErrorIs(t, err, gormoutbox.ErrNotRegistered)
}
