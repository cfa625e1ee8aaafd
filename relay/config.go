package relay

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Class is what a publisher's error says about its event.
type Class int

const (
	// Unknown leaves it to the relay: the attempt is charged to the event only if another
	// aggregate was published since the attempt began, else it is taken for an outage.
	Unknown Class = iota
	// Outage is about the broker: nothing is charged and the relay backs off as a whole.
	Outage
	// Retryable is about this event, which is charged and tried again.
	Retryable
	// Permanent is about this event, which is parked at once.
	Permanent
)

// ParkPolicy is what happens to an event that used up its attempts.
type ParkPolicy int

const (
	// ParkKey parks the aggregate: the event and those behind it wait for a
	// redrive, all other aggregates go on. Order is kept.
	ParkKey ParkPolicy = iota
	// ParkEvent parks the event alone and goes on with the aggregate's next one,
	// which gives up the order of this event.
	ParkEvent
	// Block never parks: the event is tried again every MaxBackoff and its aggregate waits.
	Block
)

// KeepForever is a Config.Retention without an end.
const KeepForever = time.Duration(math.MaxInt64)

// Config configures a relay. Zero values mean defaults, negative ones are errors.
type Config struct {
	// Table is the events table. Defaults to that of the plugin registered on the
	// db, else to gormoutbox.DefaultTable.
	Table string
	// ID names this relay among those that share the tables, at most 255 bytes. It
	// must be unique among running relays. Defaults to host name, process id and a random part.
	ID string
	// BatchSize is how many events one read takes at most. Defaults to 500.
	BatchSize int
	// BatchBytes is from how many bytes on no further event is taken into a batch; an event beyond that is a batch of its own. While one
	// batch is published the next one is read and the last one recorded, so up to three are in memory. Defaults to 8 MiB.
	BatchBytes int
	// Lanes is how many aggregates are published at the same time, unless the publisher takes batches. Defaults to 64.
	Lanes int
	// Lease is how long this relay keeps its partitions without a sign of life. It
	// is renewed at a third of that. After a crash its partitions wait up to this long. Defaults to 10 s.
	Lease time.Duration
	// MinPoll and MaxPoll bound the pause between two reads: short after work, doubled while there
	// is none, and never more than a third of Lease. Default to 5 ms and 500 ms.
	MinPoll time.Duration
	MaxPoll time.Duration
	// Wake, if set, makes the relay read at once for each value received, as a signal from other processes does
	// (package pgwake). The channel should have a buffer of one and must not be shared between relays. Reading in
	// intervals goes on beside it.
	Wake <-chan struct{}
	// MaxAttempts is how many attempts are charged to an event before it is parked. Defaults to 10.
	MaxAttempts int
	// MinBackoff and MaxBackoff bound the pause before the next attempt: doubled
	// with each attempt, less up to a quarter at random. Default to 200 ms and 1 minute.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// Park is what happens to an event that used up its attempts. Defaults to ParkKey.
	Park ParkPolicy
	// Classify tells what an error of the publisher is about. It must be safe for
	// concurrent use. Defaults to what the publisher says, if it is a watermilladapter.ErrorClassifier (that of package
	// watermilladapter/kafka is), and else to Unknown for every error.
	Classify func(err error) Class
	// PublishTimeout is how long the publisher may take for one event, or for one batch if it is a
	// watermilladapter.BatchPublisher, whose context then ends. What was not answered by then counts as
	// failed, though it may have been published. Defaults to 30 s.
	PublishTimeout time.Duration
	// ShutdownTimeout is how long Run waits for publishes in flight after its context
	// has ended. Defaults to 15 s, as some publishers take more than 10 s to give up.
	ShutdownTimeout time.Duration
	// DeleteOnPublish removes events when they are published, instead of keeping them with their processed_at. That is cheaper
	// for the database, and nothing is left to replay or to look up.
	DeleteOnPublish bool
	// Retention is how long published events are kept. They are removed in small batches by the relay that owns their
	// partition; what is not published is never touched. Defaults to 7 days; KeepForever keeps them.
	Retention time.Duration
	// SettleWindow matters on MySQL and MariaDB only: the longest time between an INSERT drawing its numbers and having
	// written its rows. Defaults to 1 minute, which is more than innodb_lock_wait_timeout.
	SettleWindow time.Duration
	// OnError, if set, is called with each error that the relay goes on after: *PublishError for an attempt that is charged to an
	// event, others for a database or a broker that is away. It is called by the relay's goroutines, also at the same time, and must
	// return soon. A panic in it is ignored.
	OnError func(err error)
	// Logger gets what goes wrong. Payloads are never logged. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.BatchSize = cmp.Or(c.BatchSize, 500)
	c.BatchBytes = cmp.Or(c.BatchBytes, 8<<20)
	c.Lanes = cmp.Or(c.Lanes, 64)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.MinPoll = cmp.Or(c.MinPoll, below(5*time.Millisecond, c.MaxPoll))
	c.MaxPoll = cmp.Or(c.MaxPoll, max(500*time.Millisecond, c.MinPoll))
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 10)
	c.MinBackoff = cmp.Or(c.MinBackoff, below(200*time.Millisecond, c.MaxBackoff))
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(time.Minute, c.MinBackoff))
	c.PublishTimeout = cmp.Or(c.PublishTimeout, 30*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 15*time.Second)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	c.SettleWindow = cmp.Or(c.SettleWindow, time.Minute)
	if c.Classify == nil {
		c.Classify = func(error) Class { return Unknown }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		if len(host) > 150 {
			host = host[:150]
		}
		c.ID = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
	}
	return c
}

// below is the default of a lower bound whose upper bound may be set.
func below(d, high time.Duration) time.Duration {
	if high > 0 {
		return min(d, high)
	}
	return d
}

// validate expects defaults to be filled in and returns all mistakes together.
func (c Config) validate() error {
	var errs []error
	fail := func(field, cause, cure string) { errs = append(errs, &ConfigError{field, cause, cure}) }
	for _, n := range []struct {
		field string
		value int
		most  int
	}{{"BatchSize", c.BatchSize, 10_000}, {"BatchBytes", c.BatchBytes, 1 << 30}, {"Lanes", c.Lanes, 10_000}, {"MaxAttempts", c.MaxAttempts, 1_000_000}} {
		if n.value < 1 || n.value > n.most {
			fail(n.field, fmt.Sprintf("%d is out of range", n.value), fmt.Sprintf("use 1 to %d, or 0 for the default", n.most))
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
		least time.Duration
	}{
		{"Lease", c.Lease, 100 * time.Millisecond},
		{"MinPoll", c.MinPoll, time.Millisecond},
		{"MaxPoll", c.MaxPoll, time.Millisecond},
		{"MinBackoff", c.MinBackoff, time.Millisecond},
		{"MaxBackoff", c.MaxBackoff, time.Millisecond},
		{"PublishTimeout", c.PublishTimeout, time.Millisecond},
		{"ShutdownTimeout", c.ShutdownTimeout, time.Millisecond},
		{"Retention", c.Retention, time.Second},
		{"SettleWindow", c.SettleWindow, time.Millisecond},
	} {
		if d.value < d.least {
			fail(d.field, fmt.Sprintf("%s is too short", d.value), fmt.Sprintf("use at least %s, or 0 for the default", d.least))
		}
	}
	if c.MinPoll > c.MaxPoll {
		fail("MinPoll", fmt.Sprintf("%s is more than MaxPoll, %s", c.MinPoll, c.MaxPoll), "exchange them")
	}
	if c.MinBackoff > c.MaxBackoff {
		fail("MinBackoff", fmt.Sprintf("%s is more than MaxBackoff, %s", c.MinBackoff, c.MaxBackoff), "exchange them")
	}
	if c.Park < ParkKey || c.Park > Block {
		fail("Park", fmt.Sprintf("%d is no policy", c.Park), "use ParkKey, ParkEvent or Block")
	}
	if len(c.ID) > 255 {
		fail("ID", fmt.Sprintf("it has %d bytes", len(c.ID)), "use at most 255")
	}
	if !utf8.ValidString(c.ID) || strings.ContainsFunc(c.ID, unicode.IsControl) {
		fail("ID", "it is not valid UTF-8 or has control characters", "use printable characters")
	}
	return errors.Join(errs...)
}
