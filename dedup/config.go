package dedup

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/dialect"
	"github.com/gormoutbox/outbox/watermilladapter"
)

// Defaults of Config.
const (
	DefaultTable         = "processed_events"
	DefaultCommitTimeout = 30 * time.Second
	DefaultLockTimeout   = 30 * time.Second
	// DefaultRetention is well above the week for which Kafka keeps messages by default.
	DefaultRetention = 30 * 24 * time.Hour
)

const (
	// NoLimit is a Config.LockTimeout without an end.
	NoLimit = time.Duration(math.MaxInt64)
	// KeepForever is a Config.Retention without an end.
	KeepForever = time.Duration(math.MaxInt64)
)

// MaxKeyLength is the greatest length in bytes of a consumer's name and of a message id.
const MaxKeyLength = 255

// MessageIDFunc returns what identifies a message. It must return the same
// text for every delivery of the message. Its errors go to the router, wrapped.
type MessageIDFunc func(*message.Message) (string, error)

// Config configures a Deduplicator. The zero value is ready to use.
type Config struct {
	// Consumer is the name under which messages are recorded: each consumer
	// handles a message once. Don't set it if several handlers
	// share the Deduplicator, or only one of them would see each message; for handlers that were renamed there is Renamed.
	// At most 255 bytes. Defaults to the name of the router's handler.
	Consumer string

	// Renamed are the names under which handlers recorded their messages before they were renamed, by the names that they have
	// now. Under its new name a handler would handle old messages again. Give the old name to no other handler. Defaults to none.
	Renamed map[string]string

	// Table is the table of the records, schema-qualified if need be. At most 50
	// bytes without the schema. Defaults to DefaultTable.
	Table string

	// MessageID says what identifies a message. At most 255 bytes of UTF-8, without
	// NUL, compared byte by byte; an empty id is refused. Defaults to the message's UUID.
	MessageID MessageIDFunc

	// Isolation is the isolation level of the transaction. Serialization
	// conflicts come back as errors, so that the message comes again. SQLite has only
	// sql.LevelSerializable. Defaults to what the database has configured: READ
	// COMMITTED on PostgreSQL, REPEATABLE READ on MySQL and MariaDB, where
	// the snapshot is taken by the handler's first read, so after the wait for
	// an earlier delivery of the same message.
	Isolation sql.IsolationLevel

	// CommitTimeout is how long the transaction may outlive the message's
	// context, and how long a commit may take where the driver can interrupt it
	// (go-sql-driver/mysql can't; set readTimeout in its DSN). A handler that
	// returns nil later than that is rolled back and ErrCommitTimeout returned. It does
	// not limit a handler whose message context is alive; for that there
	// is Watermill's Timeout middleware. Defaults to DefaultCommitTimeout, which is also
	// the time that a closing router waits for its handlers by default.
	CommitTimeout time.Duration

	// LockTimeout is how long a delivery waits for another one of the same message, and then for another message of its stream, whose handler still runs. Then it
	// returns ErrBusy, and comes again. The wait ends by closing the connection, as contexts do. Defaults to DefaultLockTimeout; NoLimit means
	// that only the message's context ends it.
	LockTimeout time.Duration

	// Outbox is the plugin whose outbox takes the messages that handlers return. Defaults to the one on db; without any,
	// such messages are refused with ErrProducedMessages.
	Outbox *gormoutbox.Plugin

	// Aggregate says whose event a message is that a handler returned. Defaults to watermilladapter.AggregateFromMetadata.
	Aggregate watermilladapter.AggregateFunc

	// Retention is how long records are kept by Purge and Run. It must be longer than the broker may take to deliver a message once more: its own
	// retention, if offsets may be reset or queues replayed. At least a minute. All Deduplicators of one table must have the same, since records are removed
	// whosever they are. Defaults to DefaultRetention; KeepForever keeps them.
	Retention time.Duration

	// Sequence makes the consumer look at the numbers of messages: gaps, and messages that come late. Defaults to none: they are handled as they come.
	Sequence *Sequence

	// AnyOrder turns off the refusal of middlewares that stand inside of dedup where they lose effects, see OrderError. It is for a Retry
	// whose handler does all its work in a savepoint.
	AnyOrder bool

	// Logger receives duplicates (debug) and messages that were acked too early (error, once). Payloads are never logged. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, DefaultTable)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, DefaultCommitTimeout)
	c.LockTimeout = cmp.Or(c.LockTimeout, DefaultLockTimeout)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	if c.MessageID == nil {
		c.MessageID = func(msg *message.Message) (string, error) { return msg.UUID, nil }
	}
	if c.Sequence != nil && c.Sequence.Of == nil {
		sequence := *c.Sequence
		sequence.Of = SequenceFromMetadata
		c.Sequence = &sequence
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// levels are the isolation levels that a Config may ask for, by dialect.
var levels = map[string][]sql.IsolationLevel{
	"postgres": {sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
	"mysql":    {sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
	"sqlite":   {sql.LevelDefault, sql.LevelSerializable},
}

// validate returns all that is wrong with db and a config with its defaults, joined.
func (c Config) validate(db *gorm.DB) (dialect.Dialect, error) {
	var errs []error
	fail := func(field, cause, cure string) {
		errs = append(errs, &ConfigError{Field: field, Cause: cause, Cure: cure})
	}

	d, err := checkDB(db)
	if err != nil {
		errs = append(errs, err)
	} else if !slices.Contains(levels[d.Name()], c.Isolation) {
		fail("Isolation", fmt.Sprintf("%s is not available on %s", c.Isolation, d.Name()), "leave it out, or choose a level that the database has")
	}
	if c.Consumer != "" {
		if err := checkKey(partConsumer, c.Consumer); err != nil {
			fail("Consumer", fmt.Sprintf("the name is longer than %d bytes or not text", MaxKeyLength), "choose a short, printable name")
		}
	}
	c.validateRenamed(fail)
	if err := checkTable(c.Table); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		field        string
		value, deflt time.Duration
	}{
		{"CommitTimeout", c.CommitTimeout, DefaultCommitTimeout}, {"LockTimeout", c.LockTimeout, DefaultLockTimeout}, {"Retention", c.Retention, DefaultRetention},
	} {
		if d.value < 0 {
			fail(d.field, fmt.Sprintf("%s is negative", d.value), "leave it out for "+d.deflt.String())
		}
	}
	if c.Retention >= 0 && c.Retention < time.Minute {
		fail("Retention", fmt.Sprintf("%s is less than a minute", c.Retention), "write it with its unit, 30 * 24 * time.Hour for example")
	}
	if s := c.Sequence; s != nil && s.HoldFor < 0 {
		fail("Sequence.HoldFor", fmt.Sprintf("%s is negative", s.HoldFor), "leave it out for no wait")
	}
	if s := c.Sequence; s != nil && s.Late != SkipLate && s.Late != ApplyLate {
		fail("Sequence.Late", fmt.Sprintf("%d is unknown", s.Late), "use SkipLate or ApplyLate")
	}
	return d, errors.Join(errs...)
}

// validateRenamed refuses names under which nothing can be recorded, and two handlers that would share their records unawares.
func (c Config) validateRenamed(fail func(field, cause, cure string)) {
	if c.Consumer != "" && len(c.Renamed) > 0 {
		fail("Renamed", "Consumer is set, so that no handler's name counts", "set one of them")
	}
	now := map[string]string{}
	for _, handler := range slices.Sorted(maps.Keys(c.Renamed)) {
		name := c.Renamed[handler]
		switch other, twice := now[name]; {
		case handler == "" || name == "" || checkKey(partConsumer, name) != nil:
			fail("Renamed", fmt.Sprintf("the name %q of handler %q is empty, longer than %d bytes or not text", name, handler, MaxKeyLength), "take the name that the handler had")
		case twice:
			fail("Renamed", fmt.Sprintf("handlers %q and %q would both record as %q, so that each message is handled by one of them only", other, handler, name), "give each the name that it had")
		}
		now[name] = handler
	}
}

// checkDB refuses what no transaction can be begun on.
func checkDB(db *gorm.DB) (dialect.Dialect, error) {
	fail := func(cause, cure string) error { return &ConfigError{Field: "db", Cause: cause, Cure: cure} }
	d, err := dialect.For(db)
	if err != nil {
		return nil, fail(err.Error(), "pass an open *gorm.DB of a supported database")
	}
	if db.Error != nil {
		return nil, fail("it has an error: "+db.Error.Error(), "pass the *gorm.DB that gorm.Open returned")
	}
	if _, ok := db.Statement.ConnPool.(gorm.TxCommitter); ok {
		return nil, fail("it is a transaction", "pass the *gorm.DB that gorm.Open returned")
	}
	if db.DryRun {
		return nil, fail("it is in DryRun mode", "pass a *gorm.DB that executes its statements")
	}
	return d, nil
}

// maxTable leaves room for the index's suffix below PostgreSQL's 63 bytes.
const maxTable = 63 - len(suffixIndex)

// checkTable refuses names that can't be quoted or would be cut by a database.
func checkTable(name string) error {
	schema, table := dialect.SplitName(name)
	fail := func(cause, cure string) error { return &ConfigError{Field: "Table", Cause: cause, Cure: cure} }
	switch {
	case table == "" || strings.HasPrefix(name, "."):
		return fail("a part of the name is empty", `write "table" or "schema.table"`)
	case len(table) > maxTable || len(schema) > 63:
		return fail(fmt.Sprintf("the name has more than %d bytes, or the schema more than 63", maxTable),
			"shorten it; the name of an index is made from it")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fail("the name has control characters or is not UTF-8", "use printable characters")
	}
	return nil
}
