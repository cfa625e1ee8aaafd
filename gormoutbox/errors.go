package gormoutbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gormoutbox/outbox/internal/migrate"
)

// ErrNotRegistered is returned by Append and Transaction when the plugin was not
// registered with db.Use.
var ErrNotRegistered = errors.New("gormoutbox: the plugin is not registered on this *gorm.DB; call db.Use(gormoutbox.New(…))")

// ErrNoEvent is what a MarshalFunc returns to say that this change is no event.
var ErrNoEvent = errors.New("gormoutbox: no event")

// ErrRepartitioned is in the error of a save, or of Append, whose process began before Repartition and was not stopped for it: the
// database has refused the events, and the transaction is rolled back. The plugin then reads the partitions again, so the same transaction
// may be tried once more.
var ErrRepartitioned = errors.New("gormoutbox: the number of partitions was changed while this process ran: try the transaction again; " +
	"if it fails again, gormoutbox.Repartition did not come to its end and is to be called again")

// RepartitionError is returned by Repartition when the outbox is in use. Nothing was changed.
type RepartitionError struct {
	Table string
	// Relays are the ids of the relays that are alive by the database's clock.
	Relays []string
	// Leases is how many partitions have a lease that has not run out.
	Leases int64
	// Pending is how many events are not processed: also the Parked ones, the Delayed ones, which wait for their time or for another
	// attempt, and the Stray ones, whose partition does not exist.
	Pending, Parked, Delayed, Stray int64
	// Held is how many aggregates wait for a retry or for somebody's decision.
	Held int64

	count int
}

// Error implements error.
func (e *RepartitionError) Error() string {
	var problems []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	if len(e.Relays) > 0 || e.Leases > 0 {
		problems = append(problems, fmt.Sprintf("%d relays are alive (%s) and %d partitions are leased: stop the relays; one that crashed counts until its lease has run out",
			len(e.Relays), strings.Join(e.Relays, ", "), e.Leases))
	}
	ready := e.Pending - e.Parked - e.Delayed
	add(ready, "%d events are pending: stop what saves events and let Relay.Drain publish them", ready)
	add(e.Delayed, "%d events are delayed: drain again when their time has come", e.Delayed)
	add(e.Parked, "%d events are parked: redrive or skip them (relay.Operator), and drain", e.Parked)
	add(e.Held, "%d aggregates are held: redrive or skip them (relay.Operator), and drain", e.Held)
	add(e.Stray, "%d of the events are in partitions that do not exist: call Repartition with the present count, %d, which moves them, and drain", e.Stray, e.count)
	return fmt.Sprintf("gormoutbox: the number of partitions of %s can't be changed now: %s", e.Table, strings.Join(problems, "; "))
}

// ConfigError is a mistake in Config or in an annotation.
type ConfigError struct {
	// Field names the field of Config, or the model and the tag's option.
	Field string
	Cause string
	Cure  string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("gormoutbox: %s: %s; %s", e.Field, e.Cause, e.Cure)
}

// EventError is an event that may not be written as it is.
type EventError struct {
	// Field names the field of Event.
	Field string
	Cause string
	Cure  string

	err error
}

// Error implements error.
func (e *EventError) Error() string {
	s := fmt.Sprintf("gormoutbox: event field %s: %s; %s", e.Field, e.Cause, e.Cure)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

// Unwrap returns the error behind, of a marshaller for example.
func (e *EventError) Unwrap() error { return e.err }

// CaptureError is a write of an annotated model that can't be captured truly,
// and so was not made; or one that turned out so after it was made, in which
// case its transaction has been rolled back.
type CaptureError struct {
	// Op is "create", "update" or "delete".
	Op string
	// Model is the Go type, or empty for a write without a model.
	Model string
	Table string
	Cause string
	Cure  string
}

// Error implements error.
func (e *CaptureError) Error() string {
	model := e.Model
	if model == "" {
		model = "no model"
	}
	return fmt.Sprintf("gormoutbox: %s of %s (table %s) can't be captured: %s; %s", e.Op, model, e.Table, e.Cause, e.Cure)
}

// SchemaError says how the outbox tables differ from what this version needs.
type SchemaError struct {
	// Problems has one entry for each missing table, column or index.
	Problems []string

	err error
}

// Error implements error.
func (e *SchemaError) Error() string {
	cure := "run gormoutbox.Migrate (after db.Use, if Config.Table is set) or apply the files of gormoutbox.Migrations"
	if m, ok := errors.AsType[*migrate.Mismatch](e.err); ok && m.Recorded != "" {
		cure = m.Cure("gormoutbox")
	}
	return "gormoutbox: schema: " + e.err.Error() + "; " + cure
}

// Unwrap returns the error behind.
func (e *SchemaError) Unwrap() error { return e.err }
