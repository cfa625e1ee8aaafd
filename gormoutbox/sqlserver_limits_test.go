package gormoutbox_test

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

const msEventColumns = `INSERT INTO "outbox_events" (part, id, aggregate_type, aggregate_id, event_type, topic, payload, headers, available_at) `

// The whole text of what the plugin sends.
func TestSQLServerStatements(t *testing.T) {
	t.Parallel()
	script := &msScript{}
	g, recorder := testenv.SQLServer(t, script.answer, &gorm.Config{NowFunc: msNow})
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
	sent := func(steps []msStep, write func() error) []string {
		t.Helper()
		recorder.Reset()
		script.steps = steps
		require.NoError(t, write())
		assert.Empty(t, script.steps)
		return recorder.SQL()
	}
	o := msOrder()
	const event = msEventColumns + "VALUES (@p1,@p2,@p3,@p4,@p5,@p6,@p7,@p8,NULL)"
	const hint = ` WITH (UPDLOCK, ROWLOCK, HOLDLOCK)`
	memory := func() *Order { return &Order{ID: msID} }

	// The partition count is read with the first event.
	assert.Equal(t, []string{
		"BEGIN", `INSERT INTO "orders" ("id","status","amount","card") VALUES (@p1,@p2,@p3,@p4);`,
		`SELECT * FROM "orders" WHERE "orders"."id" = @p1`,
		`SELECT (SELECT COUNT(*) FROM "outbox_partitions"), (SELECT COALESCE(MAX(version), 0) FROM "outbox_schema"), (SELECT COUNT(*) FROM "outbox_events" WHERE 1 = 0), (SELECT MIN(part) FROM "outbox_partitions"), (SELECT MAX(part) FROM "outbox_partitions")`,
		event, "COMMIT",
	}, sent([]msStep{msInsert(o), msBack(o), msCreated(o)}, func() error { return g.Create(memory()).Error }))

	assert.Equal(t, []string{
		"BEGIN", `SELECT * FROM "orders"` + hint + ` WHERE (amount > @p1)`,
		`UPDATE "orders" SET "status"=@p1 WHERE (amount > @p2) AND "orders"."id" = @p3`,
		`SELECT * FROM "orders"` + hint + ` WHERE "orders"."id" = @p1`, event, "COMMIT",
	}, sent([]msStep{msHold(o, msOther(o)), msUpdate(o, 1), msBack(o), msUpdated(o)}, func() error {
		return g.Model(&Order{}).Where("amount > ?", 1).Update("status", "memory").Error
	}))

	assert.Equal(t, []string{
		"BEGIN", `SELECT * FROM "orders"` + hint + ` WHERE ("orders"."id" = @p1)`,
		`DELETE FROM "orders" WHERE ("orders"."id" = @p1) AND "orders"."id" = @p2 AND "orders"."id" = @p3`, event, "COMMIT",
	}, sent([]msStep{msHold(o, o), msDelete(o, 1), msDeleted(o)}, func() error { return g.Delete(memory()).Error }))

	// A shard, a schema, and an alias: the hint stands behind it.
	for table, quoted := range map[string]string{
		"orders_2026": `"orders_2026"`, "sales.orders": `"sales"."orders"`, "orders AS o": `orders AS o`,
	} {
		where := quoted
		if _, alias, ok := strings.Cut(table, " AS "); ok {
			where = alias
		}
		script.steps = nil
		recorder.Reset()
		refused := g.Table(table).Model(&Order{}).Where("amount > ?", 1).Update("status", "memory").Error
		require.ErrorIs(t, refused, errUnexpected, where) // of the read, which is not answered
		assert.Equal(t, []string{"BEGIN", "SELECT * FROM " + quoted + hint + " WHERE (amount > @p1)", "ROLLBACK"}, recorder.SQL())
	}
}

// msOther is the order as it was.
func msOther(o *Order) *Order {
	other := *o
	other.Status = "before"
	return &other
}

// GORM's drivers for other pools and settings: one transaction on one connection all the same.
func TestSQLServerTransactions(t *testing.T) {
	t.Parallel()
	o := msOrder()
	steps := msTx(msInsert(o), msBack(o), msCreated(o))
	for name, config := range map[string]gorm.Config{
		"default": {}, "own": {SkipDefaultTransaction: true}, "prepared": {PrepareStmt: true}, "prepared and own": {PrepareStmt: true, SkipDefaultTransaction: true},
	} {
		g, recorder := msOpen(t, true, steps, config)
		require.NoError(t, g.Create(&Order{ID: msID}).Error, name)
		assert.Equal(t, msTokens(steps), msSent(steps, recorder.Statements()), name)
		for _, s := range recorder.Statements() {
			assert.Equal(t, recorder.Statements()[0].Conn, s.Conn, "%s: %s", name, s.SQL)
		}
		idle(t, g)
	}

	// The events can't be written: the row does not stay, even if the user ignores the error.
	broken := errors.New("mssql: Invalid object name 'outbox_events'")
	failing := []msStep{msInsert(o), msBack(o), {token: "INSERT outbox_events", err: broken, plugin: true}}
	for name, config := range map[string]gorm.Config{"default": {}, "own": {SkipDefaultTransaction: true}} {
		g, recorder := msOpen(t, true, failing, config)
		require.ErrorIs(t, g.Create(&Order{ID: msID}).Error, broken, name)
		assert.Equal(t, msTokens(msUndone(failing...)), msSent(msUndone(failing...), recorder.Statements()), name)
		idle(t, g)
	}
	g, recorder := msOpen(t, true, failing, gorm.Config{})
	require.ErrorIs(t, g.Transaction(func(tx *gorm.DB) error {
		require.ErrorIs(t, tx.Create(&Order{ID: msID}).Error, broken)
		return nil
	}), errTxDone)
	assert.Equal(t, msTokens(msUndone(failing...)), msSent(msUndone(failing...), recorder.Statements()))
	idle(t, g)
}

// A row that can't be read back, or a count that is not that of the rows, undoes the write.
func TestSQLServerUntrueAnswers(t *testing.T) {
	t.Parallel()
	o, model := msOrder(), &Order{}
	nothing := msStep{token: "SELECT orders", plugin: true}
	for name, c := range map[string]struct {
		steps []msStep
		run   func(g *gorm.DB) error
	}{
		"created row is not there": {[]msStep{msInsert(o), nothing}, func(g *gorm.DB) error { return g.Create(&Order{ID: msID}).Error }},
		"insert counts two":        {[]msStep{{token: "INSERT orders", affected: 2}}, func(g *gorm.DB) error { return g.Create(&Order{ID: msID}).Error }},
		"updated row is not there": {[]msStep{msUpdate(model, 1), nothing}, func(g *gorm.DB) error { return g.Model(&Order{ID: msID}).Update("amount", 1).Error }},
		"update counts two":        {[]msStep{msUpdate(model, 2)}, func(g *gorm.DB) error { return g.Model(&Order{ID: msID}).Update("amount", 1).Error }},
		"held row has gone": {[]msStep{msHold(model, o), msUpdate(model, 1), nothing}, func(g *gorm.DB) error {
			return g.Model(&Order{}).Where("amount = ?", 1).Update("amount", 2).Error
		}},
		"delete counts two": {[]msStep{msHold(model, o), msDelete(model, 2)}, func(g *gorm.DB) error { return g.Delete(&Order{ID: msID}).Error }},
	} {
		g, recorder := msOpen(t, true, c.steps, gorm.Config{})
		_, ok := isCapture(c.run(g))
		assert.True(t, ok, name)
		assert.Equal(t, msTokens(msUndone(c.steps...)), msSent(msUndone(c.steps...), recorder.Statements()), name)
		idle(t, g)
	}
}

// The server takes 2,100 parameters a statement and 1,000 rows a VALUES: GORM's own statements keep to it if the user does, and so do ours.
func TestSQLServerLimits(t *testing.T) {
	t.Parallel()
	const n = 600
	var tags, accounts, raised, seats, seatsNow, ids []any
	values, places := make([]Tag, n), make([]Seat, n)
	for i := range n {
		values[i].Name = fmt.Sprintf("tag%d", i)
		tags = append(tags, &Tag{Name: values[i].Name})
		accounts, raised = append(accounts, msAccount(uint(i+1))), append(raised, msAccount(uint(i+1)))
		raised[i].(*Account).Age = 1000 + i
		places[i] = Seat{Tenant: 1, No: fmt.Sprint(i), Name: "memory"}
		seats = append(seats, &Seat{Tenant: 1, No: places[i].No, Name: "old"})
		seatsNow = append(seatsNow, &Seat{Tenant: 1, No: places[i].No, Name: "of the row"})
		ids = append(ids, i+1)
	}
	// 262 events have 2,096 parameters.
	emitted := func(kind gormoutbox.Kind, rows []any) []msStep {
		return []msStep{msEvents(kind, rows[:262]), msEvents(kind, rows[262:524]), msEvents(kind, rows[524:])}
	}
	insert, update := msInsert(tags...), msUpdate(&Account{}, n)
	for name, c := range map[string]struct {
		steps []msStep
		run   func(g *gorm.DB) error
	}{
		"create": {append([]msStep{insert, msBack(tags...)}, emitted("created", tags)...), func(g *gorm.DB) error { return g.Create(&values).Error }},
		"update": {append([]msStep{msHold(&Account{}, accounts...), update, msBack(raised...)}, emitted("updated", raised)...), func(g *gorm.DB) error {
			return g.Model(&Account{}).Where("age > ?", 1).Update("age", gorm.Expr("id + 999")).Error
		}},
		"delete": {append([]msStep{msHold(&Account{}, accounts...), msDelete(&Account{}, n)}, emitted("deleted", accounts)...), func(g *gorm.DB) error {
			return g.Where("age > ?", 1).Delete(&Account{}).Error
		}},
		"delete by ids": {append([]msStep{msHold(&Account{}, accounts...), msDelete(&Account{}, n)}, emitted("deleted", accounts)...), func(g *gorm.DB) error {
			return g.Delete(&Account{}, ids).Error
		}},
		"upsert": {
			append(msMerged(&Seat{}, seats, seatsNow, seatsNow), emitted("upserted", seatsNow)...),
			func(g *gorm.DB) error { return g.Clauses(clause.OnConflict{UpdateAll: true}).Create(&places).Error },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := msTx(c.steps...)
			g, recorder := msOpen(t, true, steps, gorm.Config{})
			err := c.run(g)
			sent := recorder.Statements()
			require.Equal(t, msTokens(steps), msSent(steps, sent), "error: %v", err)
			require.NoError(t, err)
			for i, step := range steps {
				msLimits(t, sent[i])
				if step.events != nil {
					step.check(t, sent[i])
				}
			}
		})
	}
	t.Run("append", func(t *testing.T) {
		t.Parallel()
		g, recorder := testenv.SQLServer(t, func(query string, args []driver.Value) ([]string, [][]driver.Value, int64, error) {
			script := &msScript{steps: []msStep{{token: "INSERT outbox_events", affected: 1}}}
			return script.answer(query, args)
		})
		require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{})))
		all := make([]gormoutbox.Event, n)
		for i := range all {
			all[i] = gormoutbox.Event{Type: fmt.Sprintf("type%d", i), Payload: i}
		}
		require.NoError(t, gormoutbox.Append(g, all...))
		sent := recorder.Statements()
		insert := "INSERT outbox_events"
		require.Equal(t, []string{"BEGIN", "PARTITIONS", insert, insert, insert, "COMMIT"}, msSent(nil, sent))
		var written []string
		for _, s := range sent[2:5] {
			msLimits(t, s)
			written = append(written, types(msWritten(t, s))...)
		}
		for i, typ := range written {
			assert.Equal(t, all[i].Type, typ)
		}
		assert.Len(t, written, n)
	})
}
