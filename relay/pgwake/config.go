package pgwake

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/gormoutbox/outbox/gormoutbox"
)

const (
	// maxChannel is PostgreSQL's limit for a name, in bytes. It would cut a longer one for LISTEN and refuse it for NOTIFY.
	maxChannel    = 63
	channelPrefix = "gormoutbox:"
)

// ChannelFor is the default channel of an outbox, by the name of its events table:
// "gormoutbox:outbox_events" for example. The end of a name that is too long is replaced by a hash.
// An empty name means gormoutbox.DefaultTable.
//
// Tables that share an unqualified name in several schemas of one database share a channel, too, which
// costs some needless reads. Name the schema in the table's name, or set Config.Channel, to separate them.
func ChannelFor(table string) string {
	name := channelPrefix + gormoutbox.TablesFor(table).Events
	if len(name) <= maxChannel {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	const hashed = 16
	cut := maxChannel - hashed - 1
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "~" + hex.EncodeToString(sum[:hashed/2])
}

// Config configures a Listener or a Notifier; the same value may serve both, and those of one
// outbox must agree in Table and Channel. Zero values mean defaults, negative ones are errors.
type Config struct {
	// ConnString is where to connect: a URL, or keywords and values, as for pgx.ParseConfig. If it is
	// empty and ConnConfig is nil, the PG… environment variables decide.
	ConnString string
	// ConnConfig is instead of ConnString and comes from pgx.ParseConfig. It is copied.
	ConnConfig *pgx.ConnConfig
	// Table is the events table of the outbox. Defaults to that of the plugin for a Notifier and
	// to gormoutbox.DefaultTable for a Listener.
	Table string
	// Channel is the name of the channel, at most 63 bytes. Any text is a valid name, and its case matters. Defaults to ChannelFor(Table).
	Channel string
	// Interval is the least time between two notifications of a Notifier. A commit after a longer pause is
	// told at once; those that follow within Interval are told together at its end. Defaults to 2 ms.
	Interval time.Duration
	// PingInterval is after how much silence a connection is tested by a round trip. Defaults to 10 s.
	PingInterval time.Duration
	// Timeout is how long the server may take to connect, for each answer, and for the Listener's notification
	// to itself, after which the connection counts as dead or deaf. Defaults to 5 s.
	Timeout time.Duration
	// RetestInterval is the pause between two tests of a Listener that does not hear, less up to a quarter at
	// random. Defaults to 1 minute.
	RetestInterval time.Duration
	// MinBackoff and MaxBackoff bound the pause before the next attempt to connect: doubled
	// with each attempt, less up to a quarter at random. Default to 200 ms and 30 s.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// OnError, if set, is told every error, also those that are not logged because they repeat the one before.
	// It is called by the goroutine of Run, which waits for it.
	OnError func(err error)
	// Logger gets a warning when notifications stop working and an information when they work again; repeated
	// errors are logged for debugging only. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Channel = cmp.Or(c.Channel, ChannelFor(c.Table))
	c.Interval = cmp.Or(c.Interval, 2*time.Millisecond)
	c.PingInterval = cmp.Or(c.PingInterval, 10*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.RetestInterval = cmp.Or(c.RetestInterval, time.Minute)
	low, high := c.MinBackoff, c.MaxBackoff
	c.MinBackoff = cmp.Or(low, 200*time.Millisecond)
	if low == 0 && high > 0 {
		c.MinBackoff = min(c.MinBackoff, high)
	}
	c.MaxBackoff = cmp.Or(high, max(30*time.Second, low))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// check expects defaults to be filled in. It returns all mistakes together, and where to connect.
func (c Config) check() (*pgx.ConnConfig, error) {
	var errs []error
	fail := func(field, cause, cure string) { errs = append(errs, &ConfigError{field, cause, cure}) }
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"Interval", c.Interval},
		{"PingInterval", c.PingInterval},
		{"Timeout", c.Timeout},
		{"RetestInterval", c.RetestInterval},
		{"MinBackoff", c.MinBackoff},
		{"MaxBackoff", c.MaxBackoff},
	} {
		if d.value < time.Millisecond {
			fail(d.field, fmt.Sprintf("%s is too short", d.value), "use at least 1ms, or 0 for the default")
		}
	}
	if c.MinBackoff > c.MaxBackoff {
		fail("MinBackoff", fmt.Sprintf("%s is more than MaxBackoff, %s", c.MinBackoff, c.MaxBackoff), "exchange them")
	}
	if c.Table != "" {
		if err := gormoutbox.ValidateTable(c.Table); err != nil {
			fail("Table", err.Error(), "see gormoutbox.Config.Table")
		}
	}
	if len(c.Channel) > maxChannel {
		fail("Channel", fmt.Sprintf("it has %d bytes", len(c.Channel)), fmt.Sprintf("use at most %d; PostgreSQL allows no more", maxChannel))
	}
	if !utf8.ValidString(c.Channel) || strings.ContainsRune(c.Channel, 0) {
		fail("Channel", "it is not valid UTF-8 or has NUL", "use printable characters")
	}
	conn := c.ConnConfig
	switch {
	case conn == nil:
		parsed, err := pgx.ParseConfig(c.ConnString)
		if err != nil {
			fail("ConnString", err.Error(), "see pgx.ParseConfig")
		}
		conn = parsed
	case c.ConnString != "":
		fail("ConnConfig", "ConnString is set, too", "leave one of them")
	case conn.DialFunc == nil || conn.LookupFunc == nil:
		fail("ConnConfig", "it does not come from pgx.ParseConfig", "let pgx.ParseConfig make it and change its fields then")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return conn.Copy(), nil
}
