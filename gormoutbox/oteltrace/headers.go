package oteltrace

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Headers is for gormoutbox.Config.Headers. It returns the W3C Trace Context of the span in ctx: traceparent, and
// tracestate if there is one. A span counts that is not sampled, or came from another process.
// Without a span it returns nil.
//
// Unlike instrumentation that asks otel.GetTextMapPropagator, whose default injects nothing, it needs no setup.
// Baggage is left out: it may hold what must not be stored or sent to all consumers. See HeadersBy.
func Headers(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	return inject(ctx, propagation.TraceContext{})
}

// HeadersBy is Headers for any propagator, for other formats or with baggage:
//
//	oteltrace.HeadersBy(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
//
// The function returns nil if the propagator injects nothing. A nil propagator means propagation.TraceContext.
func HeadersBy(p propagation.TextMapPropagator) func(ctx context.Context) map[string]string {
	if p == nil {
		return Headers
	}
	return func(ctx context.Context) map[string]string { return inject(ctx, p) }
}

func inject(ctx context.Context, p propagation.TextMapPropagator) map[string]string {
	carrier := propagation.MapCarrier{}
	p.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return nil
	}
	return carrier
}
