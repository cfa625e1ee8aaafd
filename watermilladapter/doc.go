// Package watermilladapter turns outbox rows into Watermill messages and back.
//
// A message has the event's id as UUID, the payload byte for byte, and as
// metadata the headers that were saved together with those that repeat the
// row's columns: aggregate_type, aggregate_id, event_type, occurred_at and name.
// The names are constants of package gormoutbox.
//
// Sub-package kafka has the marshaler and the settings for watermill-kafka.
package watermilladapter
