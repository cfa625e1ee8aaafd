package oteltrace_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/libtnb/sqlite"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/gormoutbox/oteltrace"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The event of a save has the trace context of the request that saved.
func Example() {
	dir, err := os.MkdirTemp("", "oteltrace")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // An example's rest is harmless.
	db, err := gorm.Open(sqlite.Open(filepath.Join(dir, "shop.db") + "?_txlock=immediate&_busy_timeout=10000&_journal_mode=WAL"))
	check(err)
	check(db.Use(gormoutbox.New(gormoutbox.Config{Headers: oteltrace.Headers})))
	check(gormoutbox.Migrate(context.Background(), db))
	check(db.AutoMigrate(&Order{}))

	// In a service, the span of the request is in its context.
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	check(db.WithContext(ctx).Create(&Order{ID: uuid.New(), Status: "placed"}).Error)

	var headers string
	check(db.Raw("SELECT headers FROM outbox_events").Scan(&headers).Error)
	fmt.Println(headers)

	pool, err := db.DB()
	check(err)
	check(pool.Close())
	// Output:
	// {"traceparent":"00-01000000000000000000000000000000-0200000000000000-01"}
}

// Headers of your own go beside those of the trace.
func ExampleHeaders() {
	config := gormoutbox.Config{Headers: func(ctx context.Context) map[string]string {
		headers := map[string]string{"tenant": tenant(ctx)}
		maps.Copy(headers, oteltrace.Headers(ctx)) // nil without a span
		return headers
	}}

	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
	}))
	fmt.Println(config.Headers(context.Background()))
	fmt.Println(config.Headers(ctx))
	// Output:
	// map[tenant:7]
	// map[tenant:7 traceparent:00-01000000000000000000000000000000-0200000000000000-00]
}

func tenant(context.Context) string { return "7" }
