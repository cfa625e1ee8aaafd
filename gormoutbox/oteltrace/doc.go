// Package oteltrace gives events the trace context of the save that caused them, so that a trace goes on in the
// consumers, however much later the relay publishes.
//
//	db.Use(gormoutbox.New(gormoutbox.Config{Headers: oteltrace.Headers}))
//	db.WithContext(ctx).Create(&order) // the event has the traceparent of ctx's span
//
// The headers become Watermill metadata and Kafka headers of the same names. A consumer takes them up with
//
//	ctx := propagation.TraceContext{}.Extract(msg.Context(), propagation.MapCarrier(msg.Metadata))
//
// OpenTelemetry's conventions prefer a link to a parent if much time may lie between the two; trace.LinkFromContext(ctx) is that link.
//
// Saves need db.WithContext: without it there is no span and no header. If GORM has
// a plugin that makes a span for each statement, it is that span whose context the event carries. Whoever sets
// traceparent by gormoutbox.WithHeaders or Event.Headers overrides it.
//
// Of OpenTelemetry, the packages propagation and trace are linked, neither its SDK nor an exporter.
package oteltrace
