package gormoutbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Large payloads are written as soon as they are too many, and small ones behind them together again.
func TestSmallPayloadsBehindLargeOnes(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{}, &Blob{})
	require.NoError(t, g.Create(&Blob{ID: uuid.New()}).Error)
	s := watched(t, g)
	blobs := make([]Blob, 20)
	for i := range blobs {
		blobs[i].ID = uuid.New()
	}
	blobs[0].Data = strings.Repeat("x", 5<<20)
	require.NoError(t, g.Create(&blobs).Error)
	assert.Equal(t, []string{"BEGIN", "INSERT blobs", "INSERT outbox_events", "INSERT outbox_events", "COMMIT"}, s.log)
	all := events(t, g)[1:]
	require.Len(t, all, len(blobs))
	for i, b := range blobs {
		assert.Equal(t, b.ID.String(), all[i].AggregateID)
	}
}

// With PrepareStmt the statements of GORM are prepared and ours are not, be they reads or writes.
func TestNoStatementOfOursIsPrepared(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t, &gorm.Config{PrepareStmt: true})
		use(t, g, gormoutbox.Config{}, &Order{}, &Member{})
		prepared := g.ConnPool.(*gorm.PreparedStmtDB)
		prepared.Reset()
		o := newOrder()
		require.NoError(t, g.Create(o).Error)
		require.NoError(t, g.Model(o).Update("status", "paid").Error)
		require.NoError(t, g.Model(&Order{}).Where("status = ?", "paid").Update("amount", 2).Error)
		require.NoError(t, g.Delete(o).Error)
		require.NoError(t, g.Save(&Member{ID: 1, Email: "e"}).Error)
		for _, query := range prepared.Stmts.Keys() {
			assert.False(t, strings.HasPrefix(query, "SELECT"), query)
			assert.NotContains(t, query, gormoutbox.DefaultTable)
		}
		assert.NotEmpty(t, prepared.Stmts.Keys())
	})
}

// What is delayed does not delay other events of the same number, nor the other way round.
func TestDelayedEventsBesideOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		now := gormoutbox.Event{Type: "now", Payload: "1"}
		later := gormoutbox.Event{Type: "later", Payload: "1", AvailableAt: time.Now().Add(time.Hour)}
		for _, batch := range [][]gormoutbox.Event{{later, now}, {now, now}, {now, later}, {later, later}, {later}, {now}, {later}} {
			require.NoError(t, gormoutbox.Append(g, batch...))
		}
		var delayed []string
		require.NoError(t, g.Table("outbox_events").Where("available_at IS NOT NULL").Order("seq").Pluck("event_type", &delayed).Error)
		assert.Equal(t, []string{"later", "later", "later", "later", "later", "later"}, delayed)
	})
}

// Any text comes back as it was, alone and beside others.
func TestTextsOfEvents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{})
		texts := []string{`\`, `\\`, `"`, `\"`, `{a,b}`, `NULL`, `'`, `,`, `$1 ?`, " ", "ü€😀"}
		batch := make([]gormoutbox.Event, len(texts))
		for i, text := range texts {
			batch[i] = gormoutbox.Event{
				Type: text, Topic: text, AggregateType: text, AggregateID: text, Payload: text, Headers: map[string]string{"h": text},
			}
			require.NoError(t, gormoutbox.Append(g, batch[i]))
		}
		require.NoError(t, gormoutbox.Append(g, batch...))
		all := events(t, g)
		require.Len(t, all, 2*len(texts))
		for i, e := range all {
			want := texts[i%len(texts)]
			assert.Equal(t, []string{want, want, want, want, want, want},
				[]string{e.EventType, e.Topic, e.AggregateType, e.AggregateID, string(e.Payload), e.headers(t)["h"]}, fmt.Sprint(i))
		}
	})
}

// Cube has a key of three parts.
type Cube struct {
	_       gormoutbox.Emit `outbox:"aggregate=cube"`
	X, Y, Z int             `gorm:"primaryKey;autoIncrement:false"`
	Name    string
}

// The limit of SQL Server is one of parameters, and a row with such a key takes three.
func TestSQLServerReadsWideKeysInParts(t *testing.T) {
	t.Parallel()
	const n = 800
	var was, now []any
	for i := range n {
		was, now = append(was, &Cube{X: 1, Y: 2, Z: i + 1, Name: "old"}), append(now, &Cube{X: 1, Y: 2, Z: i + 1, Name: "new"})
	}
	const part = (2100 - 10) / 3
	steps := []msStep{msHold(&Cube{}, was...), msUpdate(&Cube{}, n), msBack(now[:part]...), msBack(now[part:]...)}
	for i := 0; i < n; i += 262 {
		steps = append(steps, msEvents(gormoutbox.Updated, now[i:min(i+262, n)]))
	}
	steps = msTx(steps...)
	g, recorder := msOpen(t, true, steps, gorm.Config{})
	require.NoError(t, g.Model(&Cube{}).Where("x = ?", 1).Update("name", "new").Error)
	sent := recorder.Statements()
	require.Equal(t, msTokens(steps), msSent(steps, sent))
	for _, s := range sent {
		msLimits(t, s)
	}
}
