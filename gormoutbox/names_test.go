package gormoutbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// otherSchema makes a second schema on the server of g and returns its name.
func otherSchema(t *testing.T, g *gorm.DB) string {
	t.Helper()
	name := "outbox_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20]
	drop := "DROP DATABASE " + name
	if g.Name() == "postgres" {
		drop = "DROP SCHEMA " + name + " CASCADE"
	}
	require.NoError(t, g.Exec("CREATE SCHEMA "+name).Error)
	t.Cleanup(func() { assert.NoError(t, g.WithContext(context.Background()).Exec(drop).Error) })
	return name
}

func servers(t *testing.T, fn func(t *testing.T, db testenv.Database)) {
	t.Helper()
	for name, newDB := range map[string]func(testing.TB) testenv.Database{
		"postgres": testenv.Postgres, "mariadb": testenv.MariaDB, "mysql": testenv.MySQLPath,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, newDB(t))
		})
	}
}

func TestTablesInAnotherSchema(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, db testenv.Database) {
		g := db.Open(t)
		table := otherSchema(t, g) + ".shop_events"
		use(t, g, gormoutbox.Config{Table: table}, &Order{})
		require.NoError(t, gormoutbox.Check(t.Context(), g))
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		require.NoError(t, g.Create(newOrder()).Error)
		assert.Len(t, eventsIn(t, g, table), 1)
		assert.Equal(t, strings.Replace(table, "shop_events", "shop_held", 1), gormoutbox.TablesFor(table).Held)

		require.NoError(t, g.Exec("DROP TABLE "+gormoutbox.TablesFor(table).Held).Error)
		schemaErr := requireSchemaError(t, gormoutbox.Check(t.Context(), g))
		assert.Equal(t, []string{"table " + gormoutbox.TablesFor(table).Held + " is missing"}, schemaErr.Problems)
	})
}

// Remote lives in another schema, given by Table.
type Remote struct {
	_    gormoutbox.Emit `outbox:"aggregate=remote"`
	ID   int             `gorm:"autoIncrement:false"`
	Name string
}

func TestModelInAnotherSchema(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &Remote{}, &Account{})
		other := otherSchema(t, g)
		require.NoError(t, g.Exec("CREATE TABLE "+other+".remotes (id INT PRIMARY KEY, name TEXT)").Error)
		at := func() *gorm.DB { return g.Table(other + ".remotes") }
		r := &Remote{ID: 1, Name: "a"}
		require.NoError(t, at().Create(r).Error)
		require.NoError(t, at().Model(r).Update("name", "b").Error)
		require.NoError(t, at().Delete(r).Error)
		all := events(t, g)
		require.Equal(t, []string{"remote.created", "remote.updated", "remote.deleted"}, types(all))
		assert.JSONEq(t, `{"ID":1,"Name":"b"}`, string(all[2].Payload))
		assert.Zero(t, count(t, g, &Remote{}))
	})
}

// A table of the same name in another schema than the model's is another table.
func TestBypassKnowsSchemas(t *testing.T) {
	t.Parallel()
	g := testenv.Postgres(t).Open(t)
	other := otherSchema(t, g)
	var own string
	require.NoError(t, g.Raw("SELECT current_schema()").Scan(&own).Error)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Models: []any{gormoutbox.Annotate(&qualified{}, "aggregate=q")}})))
	require.NoError(t, g.Exec("CREATE TABLE "+other+".qualified (id INT)").Error)
	require.NoError(t, g.Table(other+".qualified").Create(map[string]any{"id": 1}).Error)
	_, ok := isCapture(g.Table("qualified").Create(map[string]any{"id": 1}).Error)
	assert.True(t, ok)
	_, ok = isCapture(g.Table("app.qualified").Where("id = 1").Updates(map[string]any{"id": 1}).Error)
	assert.True(t, ok)
	_, ok = isCapture(g.Table(`app."qualified" AS q`).Where("id = 1").Updates(map[string]any{"id": 1}).Error)
	assert.True(t, ok)
	require.NoError(t, ignoring(g).Table(other+".qualified").Create(map[string]any{"id": 2}).Error)
}

type qualified struct{ ID int }

func (qualified) TableName() string { return "app.qualified" }

func TestTwoPluginsOnOneDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		for _, skip := range []bool{false, true} {
			g := db.Open(t, &gorm.Config{SkipDefaultTransaction: skip})
			second := gormoutbox.New(gormoutbox.Config{
				Name: "audit", Table: "audit_events", Partitions: 3,
				Marshal: func(_ context.Context, c gormoutbox.Change) ([]byte, error) {
					if c.Model.(*Order).Status == "fail" {
						return nil, errMarshal
					}
					return []byte(c.Kind), nil
				},
			})
			require.NoError(t, g.Use(second))
			use(t, g, gormoutbox.Config{}, &Order{})
			require.NoError(t, gormoutbox.Check(t.Context(), g))
			require.NoError(t, ignoring(g).Where("1 = 1").Delete(&Order{}).Error)
			require.NoError(t, g.Exec("DELETE FROM outbox_events").Error)
			require.NoError(t, g.Exec("DELETE FROM audit_events").Error)

			require.NoError(t, g.Create(newOrder()).Error)
			require.ErrorIs(t, g.Create(&Order{ID: uuid.New(), Status: "fail"}).Error, errMarshal)
			assert.Len(t, events(t, g), 1)
			assert.Len(t, eventsIn(t, g, "audit_events"), 1)
			assert.Equal(t, 1, count(t, g, &Order{}))
			assert.Equal(t, "created", string(eventsIn(t, g, "audit_events")[0].Payload))
			var n int64
			require.NoError(t, g.Table("audit_partitions").Count(&n).Error)
			assert.EqualValues(t, 3, n)

			p, err := gormoutbox.On(g)
			require.NoError(t, err)
			assert.Equal(t, "gormoutbox", p.Name())
			require.NoError(t, second.Append(g, gormoutbox.Event{Type: "x", Payload: "{}"}))
			assert.Len(t, eventsIn(t, g, "audit_events"), 2)
			assert.Len(t, events(t, g), 1)
			idle(t, g)
		}
	})
}

func TestOnePluginOnTwoDatabases(t *testing.T) {
	t.Parallel()
	p := gormoutbox.New(gormoutbox.Config{})
	a, b := testenv.SQLite(t).Open(t), testenv.Postgres(t).Open(t)
	for _, g := range []*gorm.DB{a, b} {
		require.NoError(t, g.Use(p))
		require.NoError(t, gormoutbox.Migrate(t.Context(), g))
		require.NoError(t, g.AutoMigrate(&Order{}))
	}
	require.NoError(t, p.Initialize(a)) // as dbresolver does
	require.NoError(t, a.Create(newOrder()).Error)
	require.NoError(t, b.Create(newOrder()).Error)
	require.NoError(t, b.Create(newOrder()).Error)
	assert.Len(t, events(t, a), 1)
	assert.Len(t, events(t, b), 2)
}

type plain struct {
	ID   string `gorm:"primaryKey;size:20"`
	Name string
}

func TestAnnotate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Models: []any{
			gormoutbox.Annotate(plain{}, "aggregate=thing, on=created|deleted, type=things.{kind}.v1, topic=things, version=3, key=name"),
		}}, &plain{})
		p := &plain{ID: "1", Name: "n"}
		require.NoError(t, g.Create(p).Error)
		require.NoError(t, g.Model(p).Update("name", "m").Error)
		require.NoError(t, g.Model(&plain{}).Where("1 = 1").Update("name", "m").Error, "on= leaves updates alone")
		require.NoError(t, g.Delete(p).Error)
		all := events(t, g)
		require.Equal(t, []string{"things.created.v1", "things.deleted.v1"}, types(all))
		assert.Equal(t, "thing", all[0].AggregateType)
		assert.Equal(t, "n", all[0].AggregateID)
		assert.Equal(t, "m", all[1].AggregateID)
		assert.Equal(t, "things", all[0].Topic)
		assert.Equal(t, "3", all[0].headers(t)[gormoutbox.HeaderEventVersion])
	})
}

// on=updated leaves inserts alone, those from maps too.
func TestOnUpdatedOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{Models: []any{gormoutbox.Annotate(plain{}, "aggregate=thing,on=updated")}}, &plain{})
		require.NoError(t, g.Model(&plain{}).Create(map[string]any{"id": "1", "name": "n"}).Error)
		require.NoError(t, g.Create(&plain{ID: "2"}).Error)
		require.NoError(t, g.Where("id = ?", "2").Delete(&plain{}).Error)
		assert.Empty(t, events(t, g))
		require.NoError(t, g.Save(&plain{ID: "1", Name: "m"}).Error)
		require.NoError(t, g.Save(&plain{ID: "3"}).Error)
		assert.Equal(t, []string{"thing.updated", "thing.upserted"}, types(events(t, g)))
	})
}

func TestTopicAndHeaders(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{
		Topic:   gormoutbox.TopicByAggregate,
		Headers: func(context.Context) map[string]string { return map[string]string{"a": "config", "b": "config"} },
	}, &Order{})
	ctx := gormoutbox.WithCorrelationID(gormoutbox.WithHeaders(t.Context(), map[string]string{"b": "context"}), "corr")
	require.NoError(t, g.WithContext(ctx).Create(newOrder()).Error)
	require.NoError(t, gormoutbox.Append(g.WithContext(ctx), gormoutbox.Event{
		Type: "x", AggregateType: "order", AggregateID: "1", Topic: "own", Payload: json.RawMessage("1"), Headers: map[string]string{"b": "own"},
	}))
	all := events(t, g)
	assert.Equal(t, "order", all[0].Topic)
	assert.Equal(t, map[string]string{"a": "config", "b": "context", "correlation_id": "corr"}, all[0].headers(t))
	assert.Equal(t, "own", all[1].Topic)
	assert.Equal(t, "own", all[1].headers(t)["b"])
}

// The excluded field is in no payload, log and error text.
func TestExcludedFieldStaysInside(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db testenv.Database) {
		const secret = "4111-secret"
		for _, b := range brokenWays() {
			g := db.Open(t, &gorm.Config{})
			require.NoError(t, g.Use(gormoutbox.New(b.config)))
			require.NoError(t, gormoutbox.Migrate(t.Context(), g))
			require.NoError(t, g.AutoMigrate(&Order{}))
			o := newOrder()
			o.Card = secret
			if b.breakIt != nil {
				require.NoError(t, g.Create(o).Error)
				require.NoError(t, g.Model(o).Update("card", secret+"2").Error)
				for _, e := range events(t, g) {
					assert.NotContains(t, string(e.Payload)+e.Headers, "secret")
					assert.NotContains(t, e.Headers, "card")
				}
				b.breakIt(t, g)
			}
			err := g.Create(&Order{ID: uuid.New(), Card: secret}).Error
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "secret")
			if b.breakIt != nil {
				mend(t, g)
			}
		}
	})
}

func TestNoEvent(t *testing.T) {
	t.Parallel()
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{Marshal: func(_ context.Context, c gormoutbox.Change) ([]byte, error) {
		if c.Model.(*Order).Amount == 0 {
			return nil, gormoutbox.ErrNoEvent
		}
		return []byte{}, nil
	}}, &Order{})
	require.NoError(t, g.Create(&[]Order{{ID: uuid.New()}, {ID: uuid.New(), Amount: 1}}).Error)
	assert.Equal(t, 2, count(t, g, &Order{}))
	assert.Len(t, events(t, g), 1)
	assert.Empty(t, events(t, g)[0].Payload)
}
