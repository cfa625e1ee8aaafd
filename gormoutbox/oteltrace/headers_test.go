package oteltrace_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/oteltrace"
	"github.com/gormoutbox/outbox/internal/testenv"
	"github.com/gormoutbox/outbox/relay"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

var withBaggage = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// span returns the context of a span; change may alter it.
func span(t *testing.T, change func(*trace.SpanContextConfig)) (context.Context, trace.SpanContext) {
	t.Helper()
	config := trace.SpanContextConfig{
		TraceID: trace.TraceID{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},
		SpanID:  trace.SpanID{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}, TraceFlags: trace.FlagsSampled,
	}
	if change != nil {
		change(&config)
	}
	sc := trace.NewSpanContext(config)
	return trace.ContextWithSpanContext(t.Context(), sc), sc
}

func withMember(t *testing.T, ctx context.Context, name, value string) context.Context {
	t.Helper()
	member, err := baggage.NewMemberRaw(name, value)
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	return baggage.ContextWithBaggage(ctx, bag)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	state, err := trace.ParseTraceState("rojo=1,congo=2")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		change func(*trace.SpanContextConfig)
		want   map[string]string
	}{
		"sampled":     {nil, map[string]string{"traceparent": parent}},
		"not sampled": {func(c *trace.SpanContextConfig) { c.TraceFlags = 0 }, map[string]string{"traceparent": parent[:len(parent)-1] + "0"}},
		"remote":      {func(c *trace.SpanContextConfig) { c.Remote = true }, map[string]string{"traceparent": parent}},
		"state": {func(c *trace.SpanContextConfig) { c.TraceState = state }, map[string]string{
			gormoutbox.HeaderTraceParent: parent, gormoutbox.HeaderTraceState: "rojo=1,congo=2",
		}},
		"no trace": {func(c *trace.SpanContextConfig) { c.TraceID = trace.TraceID{} }, nil},
		"no span":  {func(c *trace.SpanContextConfig) { c.SpanID = trace.SpanID{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, _ := span(t, test.change)
			ctx = withMember(t, ctx, "user", "ann")
			assert.Equal(t, test.want, oteltrace.Headers(ctx), "without baggage")
			assert.Equal(t, test.want, oteltrace.HeadersBy(nil)(ctx))
			assert.Equal(t, test.want, oteltrace.HeadersBy(propagation.TraceContext{})(ctx))

			all := map[string]string{"baggage": "user=ann"}
			maps.Copy(all, test.want)
			assert.Equal(t, all, oteltrace.HeadersBy(withBaggage)(ctx))
		})
	}
	assert.Nil(t, oteltrace.Headers(t.Context()))
	assert.Nil(t, oteltrace.HeadersBy(withBaggage)(t.Context()))
}

// TestWithoutASpanNothingIsAllocated is not parallel, or it would count what others allocate.
func TestWithoutASpanNothingIsAllocated(t *testing.T) {
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() { oteltrace.Headers(ctx) }))
}

// Order is saved.
type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order,topic=orders"`
	ID     uuid.UUID
	Status string
}

func open(t *testing.T, config gormoutbox.Config) *gorm.DB {
	t.Helper()
	db := testenv.SQLite(t).Open(t)
	require.NoError(t, db.Use(gormoutbox.New(config)))
	require.NoError(t, gormoutbox.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&Order{}))
	return db
}

// published are the messages that a relay makes of the n events of the outbox.
func published(t *testing.T, db *gorm.DB, n int) (out []*message.Message) {
	t.Helper()
	messages := make(publisher, n)
	r, err := relay.New(db, messages, relay.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(ctx) }()
	defer func() {
		cancel()
		assert.NoError(t, <-stopped)
	}()
	timeout := time.After(30 * time.Second)
	for len(out) < n {
		select {
		case msg := <-messages:
			out = append(out, msg)
		case <-timeout:
			require.Fail(t, "too few messages")
		}
	}
	return out
}

type publisher chan *message.Message

func (p publisher) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		p <- msg
	}
	return nil
}

func (publisher) Close() error { return nil }

// TestFromSaveToMessage is the way of a trace: the span of a save, the row, the message, and the context in a consumer.
func TestFromSaveToMessage(t *testing.T) {
	t.Parallel()
	db := open(t, gormoutbox.Config{Headers: oteltrace.Headers})
	state, err := trace.ParseTraceState("rojo=1")
	require.NoError(t, err)
	ctx, sc := span(t, func(c *trace.SpanContextConfig) { c.TraceState = state })
	ctx = withMember(t, ctx, "user", "ann")

	order := Order{ID: uuid.New(), Status: "placed"}
	require.NoError(t, db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		return gormoutbox.Append(tx, gormoutbox.Event{
			AggregateType: "order", AggregateID: order.ID.String(), Type: "order.shipped", Topic: "orders", Payload: "{}",
		})
	}))
	require.NoError(t, db.Model(&order).Update("status", "shipped").Error) // without a context

	var rows []string
	require.NoError(t, db.Raw("SELECT headers FROM outbox_events ORDER BY seq").Scan(&rows).Error)
	require.Len(t, rows, 3)
	assert.JSONEq(t, `{"traceparent":"`+parent+`","tracestate":"rojo=1"}`, rows[0])
	assert.JSONEq(t, rows[0], rows[1], "Append")
	assert.JSONEq(t, `{"changed":"status"}`, rows[2])

	for i, msg := range published(t, db, 3) {
		got := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(msg.Context(), propagation.MapCarrier(msg.Metadata)))
		if i == 2 {
			assert.False(t, got.IsValid(), "no span, no trace")
			continue
		}
		assert.Equal(t, parent, msg.Metadata.Get(gormoutbox.HeaderTraceParent))
		assert.Equal(t, "rojo=1", msg.Metadata.Get(gormoutbox.HeaderTraceState))
		assert.NotContains(t, msg.Metadata, "baggage")
		assert.True(t, got.Equal(sc.WithRemote(true)), "%v", got)
	}
}

// TestThroughAConsumer: what a consumer saves under the extracted context stays in the trace, without a span of its own.
func TestThroughAConsumer(t *testing.T) {
	t.Parallel()
	db := open(t, gormoutbox.Config{Headers: oteltrace.HeadersBy(withBaggage)})
	ctx, _ := span(t, nil)
	require.NoError(t, db.WithContext(withMember(t, ctx, "tenant", "7 ä")).Create(&Order{ID: uuid.New()}).Error)
	first := published(t, db, 1)[0]
	assert.Equal(t, "tenant=7%20%C3%A4", first.Metadata.Get("baggage"))

	ctx = withBaggage.Extract(t.Context(), propagation.MapCarrier(first.Metadata))
	assert.Equal(t, "7 ä", baggage.FromContext(ctx).Member("tenant").Value())
	require.NoError(t, gormoutbox.Append(db.WithContext(ctx), gormoutbox.Event{Type: "stock.reserved", Payload: "{}"}))
	second := published(t, db, 1)[0]
	assert.Equal(t, "stock.reserved", second.Metadata.Get(gormoutbox.HeaderEventType))
	assert.Equal(t, parent, second.Metadata.Get(gormoutbox.HeaderTraceParent))
	assert.Equal(t, first.Metadata.Get("baggage"), second.Metadata.Get("baggage"))
}

// TestHeadersOfTheUserWin: who sets the trace context by hand means it.
func TestHeadersOfTheUserWin(t *testing.T) {
	t.Parallel()
	db := open(t, gormoutbox.Config{Headers: oteltrace.Headers})
	ctx, _ := span(t, nil)
	const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := map[string]string{gormoutbox.HeaderTraceParent: other}
	require.NoError(t, gormoutbox.Append(db.WithContext(gormoutbox.WithHeaders(ctx, own)), gormoutbox.Event{Type: "a.happened", Payload: "{}"}))
	require.NoError(t, gormoutbox.Append(db.WithContext(ctx), gormoutbox.Event{Type: "a.happened", Payload: "{}", Headers: own}))
	for _, msg := range published(t, db, 2) {
		assert.Equal(t, other, msg.Metadata.Get(gormoutbox.HeaderTraceParent))
	}
}
