package gormoutbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Order{})
		id := uuid.Must(uuid.NewV7())
		binary := []byte{0, 0xff, '\'', '"', '?', '\\'}
		require.NoError(t, gormoutbox.Append(g))
		require.NoError(t, gormoutbox.Append(g.Session(&gorm.Session{DryRun: true}), gormoutbox.Event{Type: "dry", Payload: "1"}))
		require.NoError(t, gormoutbox.Append(g.Where("status = ?", "not ours"),
			gormoutbox.Event{ID: id, Type: "order.shipped", AggregateType: "order", AggregateID: "a'?\"\n", Payload: binary, Version: "2"},
			gormoutbox.Event{Type: "b", Payload: json.RawMessage(`{"a": 1}`)},
			gormoutbox.Event{Type: "c", Payload: map[string]any{"u": "\u0000\u2028"}},
			gormoutbox.Event{Type: "d", Payload: ""},
		))
		all := events(t, g)
		require.Equal(t, []string{"order.shipped", "b", "c", "d"}, types(all))
		assert.Equal(t, id.String(), all[0].ID)
		assert.Equal(t, "a'?\"\n", all[0].AggregateID)
		assert.Equal(t, binary, all[0].Payload)
		assert.Equal(t, map[string]string{"event_version": "2"}, all[0].headers(t))
		assert.Equal(t, `{"a": 1}`, string(all[1].Payload), "byte for byte")
		assert.JSONEq(t, `{"u":"\u0000\u2028"}`, string(all[2].Payload))
		assert.Empty(t, all[3].Payload)
		for _, e := range all[1:] {
			made, err := uuid.Parse(e.ID)
			require.NoError(t, err)
			assert.EqualValues(t, 7, made.Version())
		}
		// An id is taken once.
		require.Error(t, gormoutbox.Append(g, gormoutbox.Event{ID: id, Type: "again", Payload: "1"}))
		assert.Len(t, events(t, g), 4)
		idle(t, g)
	})
}

func TestAppendInTransactions(t *testing.T) {
	t.Parallel()
	good := gormoutbox.Event{Type: "t", Payload: "1"}
	each(t, func(t *testing.T, db testenv.Database) {
		for _, config := range []*gorm.Config{{}, {SkipDefaultTransaction: true}, {PrepareStmt: true}, {TranslateError: true}} {
			g := db.Open(t, config)
			use(t, g, gormoutbox.Config{}, &Order{})
			rows, stored := count(t, g, &Order{}), len(events(t, g))

			require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(newOrder()).Error)
				require.NoError(t, gormoutbox.Append(tx, good))
				return errHook
			}), errHook)
			// An ignored error commits nothing, be it the event's or the database's.
			twice := uuid.New()
			for _, bad := range [][]gormoutbox.Event{{good, {}}, {{ID: twice, Type: "t", Payload: "1"}, {ID: twice, Type: "t", Payload: "1"}}} {
				require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
					require.NoError(t, tx.Create(newOrder()).Error)
					err := gormoutbox.Append(tx, bad...)
					require.Error(t, err)
					assert.NotErrorIs(t, err, gorm.ErrDuplicatedKey)
					return nil
				}), errTxDone)
				require.Error(t, gormoutbox.Append(g, bad...))
			}
			assert.Equal(t, rows, count(t, g, &Order{}))
			assert.Len(t, events(t, g), stored)

			require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
				require.NoError(t, tx.Create(newOrder()).Error)
				return tx.Transaction(func(inner *gorm.DB) error { return gormoutbox.Append(inner, good) })
			}))
			assert.Equal(t, rows+1, count(t, g, &Order{}))
			assert.Len(t, events(t, g), stored+2)
			idle(t, g)
		}
	})
}

func TestAppendOnFailedDB(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{})
	failed := g.Session(&gorm.Session{})
	require.ErrorIs(t, failed.AddError(errHook), errHook)
	require.ErrorIs(t, gormoutbox.Append(failed, gormoutbox.Event{Type: "t", Payload: "1"}), errHook)
	assert.Empty(t, events(t, g))
}

// Available is due when the database's clock says so, whatever the zone of the value.
func TestAvailableAt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		zone := time.FixedZone("far", 9*3600)
		for _, at := range []time.Time{time.Now().Add(-time.Hour).In(zone), time.Now().Add(time.Hour).In(zone), {}} {
			require.NoError(t, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1", AvailableAt: at}))
		}
		due := map[string]string{
			"postgres": "available_at <= clock_timestamp()", "mysql": "available_at <= UTC_TIMESTAMP(6)", "sqlite": "available_at <= strftime('%Y-%m-%d %H:%M:%f', 'now')",
		}[g.Name()]
		var late, none int64
		require.NoError(t, g.Table("outbox_events").Where(due).Count(&late).Error)
		require.NoError(t, g.Table("outbox_events").Where("available_at IS NULL").Count(&none).Error)
		assert.EqualValues(t, 1, late)
		assert.EqualValues(t, 1, none)
	})
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Models: []any{&Order{}}}, &Order{})
		quiet := ignoring(g)
		o := newOrder()
		require.NoError(t, quiet.Create(o).Error)
		require.NoError(t, quiet.Model(&Order{}).Where("1 = 1").Update("status", "x").Error)
		require.NoError(t, quiet.Table("orders").Where("1 = 1").Updates(map[string]any{"status": "y"}).Error)
		require.NoError(t, quiet.Where("1 = 1").Delete(&Order{}).Error)
		assert.Empty(t, events(t, g))
	})
}

// Errors of refusals name what to do, in one line.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Order{})
	err := g.Table("orders").Where("1 = 1").Updates(map[string]any{"status": "secret"}).Error
	require.NoError(t, err, "the table of a model is known from its first use, or from Config.Models")
	require.NoError(t, g.Create(newOrder()).Error)
	err = g.Table("orders").Where("1 = 1").Updates(map[string]any{"status": "secret"}).Error
	require.ErrorContains(t, err, "no model (table orders)")
	assert.NotContains(t, err.Error(), "secret")
	err = g.Create(&Order{Status: "secret"}).Error
	require.EqualError(t, err, "gormoutbox: create of gormoutbox_test.Order (table orders) can't be captured: "+
		"the primary key id is zero and the database makes none; set every part of the key before the save")
}
