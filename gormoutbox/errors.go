package gormoutbox

import (
	"errors"
	"fmt"

	"github.com/gormoutbox/outbox/internal/migrate"
)

// ErrNotRegistered is returned by Append and Transaction when the plugin was not
// registered with db.Use.
var ErrNotRegistered = errors.New("gormoutbox: the plugin is not registered on this *gorm.DB; call db.Use(gormoutbox.New(…))")

// ErrNoEvent is what a MarshalFunc returns to say that this change is no event.
var ErrNoEvent = errors.New("gormoutbox: no event")

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
