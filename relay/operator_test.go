package relay_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

func operator(t testing.TB, g *gorm.DB) *relay.Operator {
	t.Helper()
	o, err := relay.NewOperator(g, "")
	require.NoError(t, err)
	return o
}

// parks is a config under which the first failure parks.
func parks() relay.Config {
	c := quick()
	c.MaxAttempts = 2
	return c
}

func TestRedriveIsInOrderAndHasAllAttempts(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		o := operator(t, db.Open(t)) // another process, without the plugin
		bad, pub := newPoison("bad0"), newRecorder()
		pub.fail = bad.fail
		stop := start(t, g, pub, parks())
		add(t, g, series("bad", "bad", 3)...)
		parked := func() bool {
			st, err := o.Status(t.Context())
			return assert.NoError(t, err) && st.Parked == 1
		}
		eventually(t, "it is parked", parked)
		require.ErrorIs(t, o.Redrive(t.Context(), "a", "good"), relay.ErrNotHeld)

		tries := bad.tries()
		require.NoError(t, o.Redrive(t.Context(), "a", "bad"))
		eventually(t, "it was tried twice more and is parked again", func() bool { return bad.tries() == tries+2 && parked() })
		held, err := o.Held(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, held, 1)
		assert.Empty(t, held[0].Request, "it is done")
		assert.Equal(t, "a", held[0].AggregateType)
		assert.Equal(t, "bad", held[0].AggregateID)
		assert.True(t, held[0].Until.IsZero())
		assert.Contains(t, held[0].Reason, errPoison.Error())

		bad.cure()
		n, err := o.RedriveParked(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
		pub.waitFor(t, "bad2")
		stop()
		assert.Equal(t, []string{"bad0", "bad1", "bad2"}, pub.of("bad"))
		require.ErrorIs(t, o.Redrive(t.Context(), "a", "bad"), relay.ErrNotHeld)
		n, err = o.RedriveParked(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

func TestSkipGivesUpTheHead(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		o := operator(t, g)
		pub := newRecorder()
		pub.fail = newPoison("bad0").fail
		stop := start(t, g, pub, parks())
		add(t, g, series("bad", "bad", 3)...)
		eventually(t, "it is parked", func() bool { return countRows(t, g, "SELECT COUNT(*) FROM outbox_held WHERE until IS NULL") == 1 })
		require.NoError(t, o.Skip(t.Context(), "a", "bad"))
		if err := o.Skip(t.Context(), "a", "bad"); err != nil { // asked twice before it is done, or too late
			require.ErrorIs(t, err, relay.ErrNotHeld)
		}
		pub.waitFor(t, "bad2")
		stop()
		assert.Equal(t, []string{"bad1", "bad2"}, pub.of("bad"))
		s := states(t, g)["bad0"]
		require.NotNil(t, s.LastError)
		assert.Equal(t, "skipped on request", *s.LastError)
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL"))
		assert.Zero(t, countRows(t, g, "SELECT COUNT(*) FROM outbox_held"))
	})
}

func TestRedriveOfEventsThatWereParkedAlone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		o := operator(t, g)
		bad, pub := newPoison("bad0", "alone"), newRecorder()
		pub.fail = bad.fail
		c := parks()
		c.Park = relay.ParkEvent
		stop := start(t, g, pub, c)
		alone := gormoutbox.Event{ID: uuid.Must(uuid.NewV7()), Type: "a.happened", Payload: "alone"}
		all := series("bad", "bad", 2)
		for i := range all {
			all[i].ID = uuid.Must(uuid.NewV7())
		}
		add(t, g, append(all, alone)...)
		pub.waitFor(t, "bad1")
		eventually(t, "both are parked", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE parked_at IS NOT NULL") == 2
		})
		bad.cure()
		n, err := o.RedriveEvents(t.Context(), alone.ID, all[0].ID, all[1].ID, uuid.New())
		require.NoError(t, err)
		assert.EqualValues(t, 2, n, "one is published, one is unknown")
		pub.waitFor(t, "bad0")
		pub.waitFor(t, "alone")
		stop()
		assert.Len(t, pub.payloads(), 3)
		n, err = o.RedriveEvents(t.Context())
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

func TestReplayPublishesAgainUnderTheSameIDs(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		o := operator(t, g)
		pub := newRecorder()
		stop := start(t, g, pub, quick())
		add(t, g, append(series("x", "x", 5), series("y", "y", 5)...)...)
		with := event("z", "z0")
		with.Headers = map[string]string{"own": "1"}
		add(t, g, with)
		pub.wait(t, 11)
		eventually(t, "all are processed", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
		})

		n, err := o.Replay(t.Context(), relay.ReplayFilter{AggregateType: "a", AggregateID: "x"})
		require.NoError(t, err)
		assert.EqualValues(t, 5, n)
		pub.wait(t, 16)
		assert.Equal(t, []string{"x0", "x1", "x2", "x3", "x4", "x0", "x1", "x2", "x3", "x4"}, pub.of("x"))

		eventually(t, "all are processed", func() bool {
			return countRows(t, g, "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NULL") == 0
		})
		n, err = o.Replay(t.Context(), relay.ReplayFilter{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), EventType: "a.happened"})
		require.NoError(t, err)
		assert.EqualValues(t, 11, n)
		pub.wait(t, 27)
		stop()
		seen := map[string][]string{}
		for _, m := range pub.messages {
			seen[m.UUID] = append(seen[m.UUID], m.Metadata.Get(gormoutbox.HeaderReplayed))
			if string(m.Payload) == "z0" {
				assert.Equal(t, "1", m.Metadata.Get("own"))
			}
		}
		assert.Len(t, seen, 11)
		for _, flags := range seen {
			assert.Empty(t, flags[0])
			for _, f := range flags[1:] {
				assert.Equal(t, "true", f)
			}
		}
		n, err = o.Replay(t.Context(), relay.ReplayFilter{IDs: []uuid.UUID{uuid.New()}})
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

func TestReplayRefusesFiltersThatSayNothing(t *testing.T) {
	t.Parallel()
	o := operator(t, open(t, testenv.SQLite(t)))
	now := time.Now()
	for field, f := range map[string]relay.ReplayFilter{
		"filter":      {},
		"AggregateID": {AggregateID: "x"},
		"To":          {From: now, To: now},
		"IDs":         {IDs: make([]uuid.UUID, 1001)},
	} {
		_, err := o.Replay(t.Context(), f)
		var invalid *relay.ConfigError
		require.ErrorAs(t, err, &invalid, field)
		assert.Equal(t, field, invalid.Field)
	}
	_, err := relay.NewOperator(nil, "")
	var invalid *relay.ConfigError
	require.ErrorAs(t, err, &invalid)
	_, err = relay.NewOperator(testenv.SQLite(t).Open(t), "a.b.c")
	require.ErrorAs(t, err, &invalid)
}

func TestStatusSaysWhatStandsInTheTables(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, db testenv.Database) {
		g := open(t, db)
		o := operator(t, g)
		st, err := o.Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, st.Backlog)
		assert.True(t, st.OldestPending.IsZero())
		assert.Len(t, st.Partitions, 64)
		assert.Empty(t, st.Relays)
		assert.WithinDuration(t, time.Now(), st.Now, time.Hour)

		var all []gormoutbox.Event
		for i := range 640 {
			all = append(all, event(string(rune('A'+i%60)), "x"))
		}
		add(t, g, all...)
		st, err = o.Status(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 640, st.Backlog, 320, "an estimate")
		assert.False(t, st.OldestPending.IsZero())
		assert.False(t, st.OldestPending.After(st.Now))

		pub := newRecorder()
		pub.fail = newPoison("bad0").fail
		c := quick()
		c.ID = "me"
		c.MinBackoff, c.MaxBackoff = time.Hour, time.Hour
		add(t, g, series("bad", "bad", 2)...)
		start(t, g, pub, c)
		pub.wait(t, 640)
		eventually(t, "the tables say so", func() bool {
			st, err = o.Status(t.Context())
			return assert.NoError(t, err) && st.Backlog == 0 && st.Waiting == 1
		})
		assert.Zero(t, st.Parked)
		assert.True(t, st.OldestPending.IsZero())
		require.Len(t, st.Relays, 1)
		assert.Equal(t, "me", st.Relays[0].ID)
		assert.Equal(t, 64, st.Relays[0].Partitions)
		assert.True(t, st.Relays[0].ExpiresAt.After(st.Now))
		held, err := o.Held(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, held, 1)
		assert.True(t, held[0].Until.After(st.Now))
		held, err = o.Held(t.Context(), 1, 10)
		require.NoError(t, err)
		assert.Empty(t, held)
	})
}
