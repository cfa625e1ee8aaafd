package gormoutbox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Where the recorded events can't be looked up before the commit, nothing is committed and no connection is lost.
func TestCommitOfUnknownRecordedEvents(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) testenv.Database{"postgres": testenv.Postgres, "sqlite": testenv.SQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, fresh(t), gormoutbox.Config{WatchCommits: true}, &Parcel{})
			p, err := gormoutbox.On(g)
			require.NoError(t, err)
			s := p.Subscribe()
			defer s.Close()
			parcel := newParcel()
			tx := g.Begin()
			require.NoError(t, tx.Create(parcel).Error)
			require.NoError(t, tx.Exec("ALTER TABLE outbox_events RENAME TO hidden_events").Error)
			require.ErrorContains(t, tx.Commit().Error, "looking recorded events up")
			idle(t, g)
			assert.Zero(t, count(t, g, &Parcel{}))
			assert.Len(t, parcel.RecordedEvents(), 1)
			assert.Empty(t, signals(s))
			require.NoError(t, g.Create(parcel).Error)
			assert.Len(t, events(t, g), 1)
			assert.Empty(t, parcel.RecordedEvents())
		})
	}
}
