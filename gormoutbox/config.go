package gormoutbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/google/uuid"
)

// Change is what a write did to one row, as a MarshalFunc gets it.
type Change struct {
	// ID is the id that the event will have.
	ID            uuid.UUID
	Kind          Kind
	AggregateType string
	AggregateID   string
	// PreviousAggregateID is the aggregate id before an update that changed it, else empty.
	PreviousAggregateID string
	EventType           string
	// Table is the table that was written, a shard for example.
	Table string
	// Model points to a copy of the row after the write (for a delete: the last
	// row), read from the database. It has the type of the saved model.
	Model any
	// Before points to the row before an update of a model with before= in its tag, else nil.
	Before any
	// Changed are the columns that an update changed, if it knows the row before, or assigned; without excluded ones.
	Changed []string
	// SoftDelete says that a deleted row is still in its table, marked as deleted.
	SoftDelete bool
	// Headers takes further headers of the event, such as a content type, from a MarshalFunc.
	Headers map[string]string

	payload func() ([]byte, error)
}

// DefaultPayload is the payload that the change has without a MarshalFunc: the row as encoding/json, without associations
// and fields tagged outbox:"-". It is an *EventError for models that have none, since they marshal themselves for example.
func (c Change) DefaultPayload() ([]byte, error) {
	if c.payload == nil {
		return nil, &EventError{Field: "Payload", Cause: "the Change was not made by the plugin", Cure: "use the one that was passed"}
	}
	return c.payload()
}

// MarshalFunc makes the payload of a change. ErrNoEvent means that this change is
// no event; any other error, and a panic, fails the save. It must be safe for
// concurrent use and must not use the transaction that is open. With a
// MarshalFunc, leaving out fields tagged outbox:"-" is its task.
type MarshalFunc func(ctx context.Context, c Change) ([]byte, error)

// TopicParams is what a TopicFunc may decide by.
type TopicParams struct {
	AggregateType string
	AggregateID   string
	EventType     string
}

// TopicFunc chooses a topic; empty means the event type. It must be safe for concurrent use.
type TopicFunc func(TopicParams) string

// TopicByAggregate is a TopicFunc with one topic for all event types of an
// aggregate type. Brokers keep order only within a topic, so order across event
// types needs it, or topic= in the tag.
func TopicByAggregate(p TopicParams) string { return p.AggregateType }

// Config configures the plugin. The zero value is ready for use.
type Config struct {
	// Name is the plugin's name in GORM and the prefix of its callbacks. Two
	// plugins on one *gorm.DB need different names and tables. Defaults to "gormoutbox".
	Name string
	// Table is the events table, possibly schema-qualified (not on SQLite). The names of the other tables
	// are made from it, see TablesFor. Defaults to DefaultTable.
	Table string
	// Partitions is how many partitions the first Migrate creates, 1 to 1024.
	// Afterwards the database's count is what counts, and Repartition changes it. Defaults to 64.
	Partitions int
	// Models are models to check when the plugin is registered, instead of at their first save: values or
	// pointers of annotated types, or Annotate(model, tag). Registering a model also makes
	// the plugin refuse writes to its table that bypass the model, before its first save.
	Models []any
	// Marshal makes the payloads of models that have no marshaller of their own. Defaults to the row as encoding/json, without
	// associations and fields tagged outbox:"-".
	Marshal MarshalFunc
	// MaxPayload is how many bytes a payload may have; a larger one fails the save with an *EventError. A broker's
	// limit is a good choice. Defaults to 10 MiB; negative means no limit.
	MaxPayload int
	// WatchCommits makes the plugin see the commits of db.Transaction and db.Begin, so that relays of this process
	// wake up at once and a Recorder forgets its events, without the help of the function Transaction. It wraps the connection
	// pool of the *gorm.DB. The price: statement.ConnPool is no *sql.Tx any more in a
	// transaction, so code that asserts this type stops working. Defaults to false: such
	// events are found by polling.
	WatchCommits bool
	// Topic chooses the topic of events that have none of their own. Defaults to the event type.
	Topic TopicFunc
	// Headers returns further headers from the context of a save, such as a trace context. It must
	// be safe for concurrent use. Defaults to none beyond WithHeaders.
	Headers func(ctx context.Context) map[string]string
	// Logger gets warnings. Payloads and values are never logged. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "gormoutbox")
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.Partitions = cmp.Or(c.Partitions, DefaultPartitions)
	c.MaxPayload = cmp.Or(c.MaxPayload, DefaultMaxPayload)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate returns all mistakes that need no database.
func (c Config) validate() error {
	var errs []error
	if problem := checkTable(c.Table); problem != nil {
		errs = append(errs, problem)
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, &ConfigError{
			Field: "Partitions", Cause: fmt.Sprintf("%d is out of range", c.Partitions), Cure: fmt.Sprintf("use 1 to %d", maxPartitions),
		})
	}
	if cause := nameProblem(c.Name); cause != "" {
		errs = append(errs, &ConfigError{Field: "Name", Cause: cause, Cure: nameCure})
	}
	return errors.Join(errs...)
}

// DefaultMaxPayload is the default of Config.MaxPayload, in bytes.
const DefaultMaxPayload = 10 << 20

// Annotated is a model whose annotation, or marshaller, is given by value.
type Annotated struct {
	model   any
	tag     string
	marshal MarshalFunc
}

// Annotate annotates a model that can't have an Emit field, for Config.Models.
// The tag is the one that Emit would have. For a model that has an Emit field it is empty.
func Annotate(model any, tag string) Annotated { return Annotated{model: model, tag: tag} }

// Marshal returns the annotation with a marshaller for this model alone, which goes before Config.Marshal.
func (a Annotated) Marshal(fn MarshalFunc) Annotated {
	a.marshal = fn
	return a
}

func typeOfModel(m any) reflect.Type {
	t := reflect.TypeOf(m)
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	return t
}
