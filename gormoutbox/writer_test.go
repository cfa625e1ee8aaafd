package gormoutbox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Whatever is in an event is in its row, one by one and in batches, which PostgreSQL gets as arrays.
func TestEventsAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	strange := []string{`"`, `\`, `\\"`, `{a,b}`, "NULL", "null", ",", "{}", "'", "?", "$1", " ", "line\nbreak\ttab", "💡", "ä", `\x00`, `{"a":"b"}`}
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		d, err := dialect.For(g)
		require.NoError(t, err)
		due := time.Date(2031, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
		var all []gormoutbox.Event
		for i, s := range strange {
			e := gormoutbox.Event{
				AggregateType: "t", AggregateID: s, Type: "type " + string(rune('a'+i)), Topic: "topic",
				Payload: append([]byte(s), binary...), Headers: map[string]string{"h": s, s: "value"},
			}
			if i%2 == 0 {
				e.AvailableAt = due
			}
			all = append(all, e)
		}
		check := func() {
			t.Helper()
			var rows []struct {
				AggregateID string
				EventType   string
				Payload     []byte
				Headers     string
				Micros      *int64
			}
			require.NoError(t, g.Table("outbox_events").Select("aggregate_id, event_type, payload, headers, "+d.Micros("available_at")+" AS micros").Order("seq").Find(&rows).Error)
			require.Len(t, rows, len(all))
			for i, row := range rows {
				assert.Equal(t, all[i].AggregateID, row.AggregateID)
				assert.Equal(t, all[i].Type, row.EventType)
				assert.Equal(t, all[i].Payload, row.Payload)
				var h map[string]string
				require.NoError(t, json.Unmarshal([]byte(row.Headers), &h))
				assert.Equal(t, all[i].Headers, h)
				if all[i].AvailableAt.IsZero() {
					assert.Nil(t, row.Micros)
				} else if assert.NotNil(t, row.Micros) {
					assert.Equal(t, due.UnixMicro(), *row.Micros)
				}
			}
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
		}
		require.NoError(t, gormoutbox.Append(g, all...))
		check()
		for _, e := range all {
			require.NoError(t, gormoutbox.Append(g, e))
		}
		check()
		// A batch with much payload is not sent as arrays.
		all[1].Payload = make([]byte, 300<<10)
		require.NoError(t, gormoutbox.Append(g, all...))
		check()
	})
}

// Mismatch can't be scanned: its column has a text.
type Mismatch struct {
	_    gormoutbox.Emit `outbox:"aggregate=mismatch"`
	ID   int             `gorm:"autoIncrement:false"`
	Name string
	N    int `gorm:"->"`
}

// An error that comes behind the write must not leave the row without its event, ignored or not.
func TestErrorBehindTheWrite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		require.NoError(t, g.Exec("CREATE TABLE mismatches (id INT PRIMARY KEY, name VARCHAR(20), n VARCHAR(20) DEFAULT 'text')").Error)
		require.NoError(t, ignoring(g).Exec("INSERT INTO mismatches (id, name) VALUES (9, 'old')").Error)
		for name, write := range map[string]func(tx *gorm.DB) error{
			"create": func(tx *gorm.DB) error { return tx.Create(&Mismatch{ID: 1}).Error },
			"batch":  func(tx *gorm.DB) error { return tx.Create(&[]Mismatch{{ID: 1}, {ID: 2}}).Error },
			"update": func(tx *gorm.DB) error { return tx.Model(&Mismatch{ID: 9}).Update("name", "new").Error },
			"bulk": func(tx *gorm.DB) error {
				return tx.Model(&Mismatch{}).Where("name = ?", "old").Update("name", "new").Error
			},
		} {
			require.Error(t, write(g), name)
			err := g.Transaction(func(tx *gorm.DB) error {
				require.Error(t, write(tx), name)
				return nil
			})
			var names []string
			require.NoError(t, g.Table("mismatches").Order("id").Pluck("name", &names).Error)
			assert.Equal(t, []string{"old"}, names, "%s: %v", name, err)
			assert.Empty(t, events(t, g), name)
			idle(t, g)
		}
	})
}
