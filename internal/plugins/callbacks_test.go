package plugins_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/plugin/opentelemetry/tracing"
	"gorm.io/plugin/prometheus"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

// Plugins that only watch: all that the outbox does is as without them.
func TestObservers(t *testing.T) {
	t.Parallel()
	for name, observers := range map[string]func() []gorm.Plugin{
		"opentelemetry": func() []gorm.Plugin {
			return []gorm.Plugin{tracing.NewPlugin(tracing.WithTracerProvider(sdktrace.NewTracerProvider()))}
		},
		// Without its HTTP server; its goroutine waits for the interval.
		"prometheus": func() []gorm.Plugin {
			return []gorm.Plugin{prometheus.New(prometheus.Config{DBName: newID().String(), RefreshInterval: 1 << 20})}
		},
		"both": func() []gorm.Plugin {
			return []gorm.Plugin{
				prometheus.New(prometheus.Config{DBName: newID().String(), RefreshInterval: 1 << 20}),
				tracing.NewPlugin(tracing.WithTracerProvider(sdktrace.NewTracerProvider())),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
				bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
					db, config := newDB(t), gormoutbox.Config{WatchCommits: name == "both"}
					w := world{look: tables(t, db, config, &Plain{}), app: db.Open(t)}
					use(w.app, quiet(config), observers()...)
					scenario(t, w, plain)
				})
			})
		})
	}
}

// Spans of all statements, ours too, hang on the caller's, and the events carry the span of
// the statement that they are of.
func TestSpans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			propagator := propagation.TraceContext{}
			config := gormoutbox.Config{Headers: func(ctx context.Context) map[string]string {
				carrier := propagation.MapCarrier{}
				propagator.Inject(ctx, carrier)
				return carrier
			}}
			db := newDB(t)
			w := world{look: tables(t, db, config, &Plain{}), app: db.Open(t)}
			use(w.app, quiet(config), tracing.NewPlugin(tracing.WithTracerProvider(provider)))
			plainApp := w.app

			for _, broken := range []bool{true, false} {
				if broken {
					refuse(t, w)
				}
				for _, way := range ways() {
					for _, s := range steps() {
						team := newID().String()
						stock(t, w, plain, team)
						had, started := len(w.events(t)), len(recorder.Started())
						ctx, root := provider.Tracer("test").Start(t.Context(), "root")
						w.app = plainApp.WithContext(ctx)
						err := way.run(w, func(tx *gorm.DB) error {
							err := s.run(tx, plain, plain.find(t, w.look, team))
							assert.Equal(t, root.SpanContext(), trace.SpanContextFromContext(tx.Statement.Context), "the context of the caller's *gorm.DB")
							return err
						})
						root.End()
						if broken {
							require.Error(t, err)
						} else {
							require.NoError(t, err)
						}

						spans := recorder.Started()[started:]
						require.Len(t, recorder.Ended(), len(recorder.Started()), "spans that did not end")
						byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
						for _, span := range spans {
							byID[span.SpanContext().SpanID()] = span
						}
						for _, span := range spans[1:] {
							parent, ok := byID[span.Parent().SpanID()]
							require.True(t, ok, "%s has no parent", span.Name())
							assert.Equal(t, root.SpanContext().TraceID(), parent.SpanContext().TraceID())
						}
						for _, e := range w.events(t)[had:] {
							carried := trace.SpanContextFromContext(propagator.Extract(t.Context(), propagation.MapCarrier(e.headers(t))))
							require.True(t, carried.IsValid(), "traceparent")
							assert.Equal(t, root.SpanContext().TraceID(), carried.TraceID())
							span, ok := byID[carried.SpanID()]
							require.True(t, ok, "traceparent of an unknown span")
							assert.Contains(t, span.Name(), e.AggregateType+"s", "the statement of the event")
							assert.NotContains(t, span.Name(), "select")
						}
					}
				}
				if broken {
					require.NoError(t, w.look.Exec(accepting[w.look.Name()]).Error)
				}
			}
			w.idle(t)
		})
	})
}

// A second plugin with another name and table writes the same events to its own.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
			second := gormoutbox.Config{Name: "audit", Table: "audit_events"}
			db := newDB(t)
			w := world{look: tables(t, db, gormoutbox.Config{}, &Plain{}), app: db.Open(t), also: second.Table}
			tables(t, db, second)
			use(w.app, quiet(gormoutbox.Config{}), quiet(second))
			scenario(t, w, plain)
			w.table, w.also = second.Table, gormoutbox.DefaultTable
			scenario(t, w, plain)

			audited := w.events(t)
			w.table = ""
			all := w.events(t)
			require.Len(t, audited, len(all))
			for i, e := range all {
				assert.Equal(t, e.EventType+e.AggregateID, audited[i].EventType+audited[i].AggregateID)
				assert.JSONEq(t, string(e.Payload), string(audited[i].Payload))
			}
		})
	})
}

// Counted has a key that the database makes and a column that it fills in.
type Counted struct {
	_     gormoutbox.Emit `outbox:"aggregate=counted"`
	ID    uint
	Email string `gorm:"size:40;uniqueIndex"`
	State string `gorm:"size:10;default:new"`
}

// Two plugins leave the user's values as one does, and as none does.
func TestTwoInstancesAndKeysOfTheDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
			second := gormoutbox.Config{Name: "audit", Table: "audit_events"}
			bare, db := newDB(t), newDB(t)
			without := tables(t, bare, gormoutbox.Config{}, &Counted{})
			w := world{look: tables(t, db, gormoutbox.Config{}, &Counted{}), app: db.Open(t)}
			tables(t, db, second)
			use(w.app, quiet(gormoutbox.Config{}), quiet(second))

			for _, s := range []struct {
				name string
				want int
				run  func(g *gorm.DB) (int64, any, error)
			}{
				{"one", 1, func(g *gorm.DB) (int64, any, error) {
					c := &Counted{Email: "a"}
					done := g.Create(c)
					return done.RowsAffected, c, done.Error
				}},
				{"several", 3, func(g *gorm.DB) (int64, any, error) {
					c := []*Counted{{Email: "b"}, {Email: "c"}, {Email: "d"}}
					done := g.Create(c)
					return done.RowsAffected, c, done.Error
				}},
				{"a conflict that does nothing", 0, func(g *gorm.DB) (int64, any, error) {
					c := &Counted{Email: "a"}
					done := g.Clauses(clause.OnConflict{DoNothing: true}).Create(c)
					return 0, c, done.Error
				}},
				{"upsert by another index", 1, func(g *gorm.DB) (int64, any, error) {
					c := &Counted{Email: "a", State: "old"}
					done := g.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"state"})}).Create(c)
					return done.RowsAffected, c, done.Error
				}},
				{"bulk update", 2, func(g *gorm.DB) (int64, any, error) {
					done := g.Model(&Counted{}).Where("email IN ?", []string{"a", "b"}).Update("state", "both")
					return done.RowsAffected, nil, done.Error
				}},
				{"bulk delete", 2, func(g *gorm.DB) (int64, any, error) {
					done := g.Where("email IN ?", []string{"c", "d"}).Delete(&Counted{})
					return done.RowsAffected, nil, done.Error
				}},
			} {
				had := len(w.events(t))
				rows, values, err := s.run(without)
				require.NoError(t, err)
				gotRows, gotValues, err := s.run(w.app)
				if !assert.NoError(t, err, s.name) {
					continue
				}
				assert.Equal(t, rows, gotRows, s.name)
				assert.Equal(t, values, gotValues, s.name)
				all := w.events(t)
				assert.Len(t, all[had:], s.want, s.name)
				audit := w
				audit.table = second.Table
				audited := audit.events(t)
				require.Len(t, audited, len(all), s.name)
				for i := range all {
					assert.Equal(t, all[i].EventType, audited[i].EventType, s.name)
					assert.JSONEq(t, string(all[i].Payload), string(audited[i].Payload), s.name)
				}
			}
			w.idle(t)
		})
	})
}

// One plugin value on several *gorm.DB writes each event beside its row.
func TestOneValueOnSeveral(t *testing.T) {
	t.Parallel()
	shared := quiet(gormoutbox.Config{})
	open := func(t *testing.T, db testenv.Database) world {
		t.Helper()
		w := world{look: tables(t, db, gormoutbox.Config{}, &Plain{}), app: db.Open(t)}
		require.NoError(t, w.app.Use(shared))
		return w
	}
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		for _, name := range []string{"one", "another"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := open(t, newDB(t))
				scenario(t, w, plain)
			})
		}
	})
}

// Sale is in a table that is sharded.
type Sale struct {
	_        gormoutbox.Emit `outbox:"aggregate=sale"`
	ID       int64           `gorm:"primaryKey;autoIncrement:false"`
	Customer int64
	Name     string
}

// The pool of sharding always calls itself a transaction. Outside of a real one nothing is written.
func TestSharding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, newDB func(testing.TB) testenv.Database) {
		bothOrders(t, func(t *testing.T, use func(*gorm.DB, gorm.Plugin, ...gorm.Plugin)) {
			db := newDB(t)
			w := world{
				look: tables(t, db, gormoutbox.Config{}, &Plain{}, &Sale{}), app: db.Open(t),
				only: []string{"Transaction", "Transaction, ignoring the error"},
			}
			require.NoError(t, w.look.Table("sales_1").AutoMigrate(&Sale{}))
			use(w.app, quiet(gormoutbox.Config{}), newShards("sales"))

			for _, s := range steps() {
				team := newID().String()
				stock(t, w, plain, team)
				for _, skip := range []bool{false, true} {
					before := plain.find(t, w.look, team)
					err := s.run(w.app.Session(&gorm.Session{SkipDefaultTransaction: skip}), plain, plain.find(t, w.look, team))
					var refusal *gormoutbox.CaptureError
					require.ErrorAs(t, err, &refusal, s.name)
					assert.Equal(t, before, plain.find(t, w.look, team), s.name)
				}
			}
			assert.Empty(t, w.events(t))
			w.idle(t)
			scenario(t, w, plain)
			sharded(t, w)
		})
	})
}

// sharded writes rows whose table is not the one in the statement's text.
func sharded(t *testing.T, w world) {
	t.Helper()
	had := len(w.events(t))
	var refusal *gormoutbox.CaptureError
	require.ErrorAs(t, w.app.Create(&Sale{ID: 1, Customer: 7, Name: "no"}).Error, &refusal)
	row := func() (s Sale) {
		require.NoError(t, w.look.Table("sales_1").Find(&s).Error)
		return s
	}
	require.Zero(t, row().ID)
	check := func(kind string, last Sale) {
		all := w.events(t)[had:]
		had += len(all)
		require.Len(t, all, 1)
		assert.Equal(t, "sale."+kind, all[0].EventType)
		assert.JSONEq(t, asJSON(t, last), string(all[0].Payload))
	}
	for _, s := range []struct {
		kind string
		// locks says that MariaDB has to lock the rows first, which may be refused, as sharding does not find them.
		locks bool
		run   func(tx *gorm.DB) *gorm.DB
	}{
		{"created", false, func(tx *gorm.DB) *gorm.DB { return tx.Create(&Sale{ID: 1, Customer: 7, Name: "a"}) }},
		{"updated", false, func(tx *gorm.DB) *gorm.DB {
			return tx.Model(&Sale{ID: 1}).Where("customer = ?", int64(7)).Update("name", "b")
		}},
		{"updated", true, func(tx *gorm.DB) *gorm.DB {
			return tx.Model(&Sale{}).Where("customer = ?", int64(7)).Update("name", "c")
		}},
		{"deleted", true, func(tx *gorm.DB) *gorm.DB { return tx.Where("customer = ?", int64(7)).Delete(&Sale{ID: 1}) }},
	} {
		was := row()
		refuse(t, w)
		assert.Error(t, w.app.Transaction(func(tx *gorm.DB) error { return s.run(tx).Error }), "%s was neither made nor refused", s.kind)
		_ = w.app.Transaction(func(tx *gorm.DB) error {
			_ = s.run(tx).Error
			return nil
		})
		assert.Equal(t, was, row())
		require.NoError(t, w.look.Exec(accepting[w.look.Name()]).Error)

		var rows int64
		err := w.app.Transaction(func(tx *gorm.DB) error {
			done := s.run(tx)
			rows = done.RowsAffected
			return done.Error
		})
		if s.locks && w.look.Name() == "mysql" && errors.As(err, &refusal) {
			assert.Equal(t, was, row())
			continue
		}
		require.NoError(t, err, s.kind)
		if !assert.EqualValues(t, 1, rows, "%s: the row was there and no error said that it was not written", s.kind) {
			continue
		}
		last := row()
		if s.kind == "deleted" {
			assert.Zero(t, last.ID)
			last = was
		}
		check(s.kind, last)
	}
	var n int64
	require.NoError(t, w.look.Model(&Sale{}).Count(&n).Error)
	assert.Zero(t, n, "rows outside of the shard")
	w.idle(t)
}
