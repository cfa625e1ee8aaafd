package dedup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/pause"
)

// Late says what becomes of a message whose number is not above the one that its stream has come to.
type Late int

const (
	// SkipLate records it without running the handler: what it says is stale. That is right where each message has the whole state.
	SkipLate Late = iota
	// ApplyLate runs the handler. That is right where each message matters for itself, and the handler can do with any order.
	ApplyLate
)

// SequenceFunc says which stream a message belongs to, and its number in it. The numbers of a stream go up by one; where they begin does not matter.
// Messages that are not numbered are handled as they come. The stream is at most 255 bytes of UTF-8, without NUL.
type SequenceFunc func(*message.Message) (stream string, number int64, numbered bool, err error)

// Sequence makes a consumer look at the numbers of the messages of a stream, by default those of an aggregate: for brokers, or
// numbers of consumers, that do not keep the order. How far a stream has come is written in the transaction of the message.
//
// The first message of a stream that a consumer sees begins it, whatever its number.
type Sequence struct {
	// Of defaults to SequenceFromMetadata.
	Of SequenceFunc
	// Late is what becomes of messages that come behind a later one. Defaults to SkipLate.
	Late Late
	// HoldFor is how long a message waits for those that are missing before it. Their arrival, at this or at another process, ends the wait. Then it is handled, and those that are missing
	// are late if they come after all. The time counts from when this process first saw the message. While it waits it
	// keeps its place: on Kafka what is behind it in the partition waits, too. If its context ends before, a *GapError is returned, so that it comes again.
	// Defaults to none: a gap is told to OnGap and the log, and nothing waits.
	HoldFor time.Duration
	// OnGap, if set, is told of each message that is handled although others are missing before it. It is called in the middle of the
	// transaction and must return soon.
	OnGap func(*GapError)
}

// GapError says that messages are missing before this one. It is returned if a message could not be held until they came or Sequence.HoldFor
// was over, because its context ended. The message must come again.
type GapError struct {
	Consumer, Stream string
	// Reached is the number that the stream has come to, Number that of the message.
	Reached, Number int64
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("dedup: consumer %q has come to number %d of stream %q, and number %d is here: those between are missing", e.Consumer, e.Reached, e.Stream, e.Number)
}

// SequenceError is a message whose number can't be read. Every delivery of the message fails in the same way.
type SequenceError struct{ Err error }

// Error implements error.
func (e *SequenceError) Error() string { return "dedup: the number of the message: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SequenceError) Unwrap() error { return e.Err }

// SequenceFromMetadata is the default of Sequence.Of: the stream is the aggregate, and the number the metadata gormoutbox.HeaderSequence, which the
// producer sets. Messages without it are not numbered.
func SequenceFromMetadata(msg *message.Message) (stream string, number int64, numbered bool, err error) {
	text := msg.Metadata.Get(gormoutbox.HeaderSequence)
	if text == "" {
		return "", 0, false, nil
	}
	if number, err = strconv.ParseInt(text, 10, 64); err != nil {
		return "", 0, false, fmt.Errorf("%s: %w", gormoutbox.HeaderSequence, err)
	}
	// Escaped, so that the first slash is the one between them.
	stream = strings.NewReplacer("%", "%25", "/", "%2F").Replace(msg.Metadata.Get(gormoutbox.HeaderAggregateType)) + "/" + msg.Metadata.Get(gormoutbox.HeaderAggregateID)
	if stream == "/" {
		return "", 0, false, fmt.Errorf("%s without %s and %s", gormoutbox.HeaderSequence, gormoutbox.HeaderAggregateType, gormoutbox.HeaderAggregateID)
	}
	if len(stream) > MaxKeyLength {
		sum := sha256.Sum256([]byte(stream))
		stream = hex.EncodeToString(sum[:])
	}
	return stream, number, true, nil
}

// place is where a message stands in its stream, the zero value if it is not numbered.
type place struct {
	stream string
	number int64
}

func (d *Deduplicator) placeOf(msg *message.Message) (place, error) {
	if d.config.Sequence == nil {
		return place{}, nil
	}
	stream, number, numbered, err := d.config.Sequence.Of(msg)
	switch {
	case err != nil:
		return place{}, &SequenceError{err}
	case !numbered:
		return place{}, nil
	case stream == "":
		return place{}, &SequenceError{errors.New("its stream has no name")}
	}
	return place{stream, number}, checkKey(partStream, stream)
}

// sequenceStatements are those for the table of streams.
type sequenceStatements struct{ read, begin, move, reached string }

var sequenceBeginForms = map[string]string{
	"postgres": `INSERT INTO {streams} (consumer, stream, number, updated_at) VALUES (?, ?, ?, {now}) ON CONFLICT (consumer, stream) DO NOTHING`,
	"sqlite":   `INSERT INTO {streams} (consumer, stream, number, updated_at) VALUES (?, ?, ?, {now}) ON CONFLICT (consumer, stream) DO NOTHING`,
	"mysql":    `INSERT IGNORE INTO {streams} (consumer, stream, number, updated_at) VALUES (?, ?, ?, {now})`,
}

func (s *statements) addSequences(name string, bind func(string) string, r *strings.Replacer, forUpdate string) {
	const where = ` WHERE consumer = ? AND stream = ?`
	s.sequence = sequenceStatements{
		read:    r.Replace(bind(`SELECT number FROM {streams}` + where + forUpdate)),
		begin:   r.Replace(bind(sequenceBeginForms[name])),
		move:    r.Replace(bind(`UPDATE {streams} SET number = ?, updated_at = {now}` + where)),
		reached: r.Replace(bind(`SELECT 1 FROM {streams}` + where + ` AND number >= ?`)),
	}
}

// arrange finds out whether the turn of a message has come, and moves its stream on. It is late if the handler must not run.
// The transaction locks the stream, so that its messages take turns.
func (d *Deduplicator) arrange(ctx context.Context, tx *transaction, k key, p place, force bool) (late bool, err error) {
	var reached int64
	var known bool
	err = d.inTime(ctx, k, func(ctx context.Context) (err error) {
		reached, known, err = d.reach(ctx, tx.raw(), k, p)
		return err
	})
	switch {
	case err != nil:
		return false, aboutDatabase(fmt.Errorf("dedup: stream %q of consumer %q: %w", p.stream, k.consumer, err))
	case !known:
		return false, nil
	case p.number <= reached:
		d.late.Add(1)
		d.config.Logger.DebugContext(ctx, "late message", slog.String("consumer", k.consumer), slog.String("message_id", k.id),
			slog.String("stream", p.stream), slog.Int64("number", p.number), slog.Int64("reached", reached))
		return d.config.Sequence.Late == SkipLate, nil
	case p.number == reached+1:
	default:
		gap := &GapError{Consumer: k.consumer, Stream: p.stream, Reached: reached, Number: p.number}
		if d.config.Sequence.HoldFor > 0 && !force {
			return false, gap
		}
		d.gaps.Add(1)
		d.config.Logger.WarnContext(ctx, "messages are missing", slog.String("consumer", k.consumer), slog.String("message_id", k.id),
			slog.String("stream", p.stream), slog.Int64("number", p.number), slog.Int64("reached", reached))
		if d.config.Sequence.OnGap != nil {
			d.config.Sequence.OnGap(gap)
		}
	}
	if _, err := tx.raw().ExecContext(ctx, d.sql.sequence.move, p.number, k.consumer, p.stream); err != nil {
		return false, &databaseError{fmt.Errorf("dedup: moving stream %q of consumer %q: %w", p.stream, k.consumer, err)}
	}
	return false, nil
}

// reach locks a stream and reads how far it has come, or begins it.
func (d *Deduplicator) reach(ctx context.Context, pool gorm.ConnPool, k key, p place) (reached int64, known bool, err error) {
	for range 2 { // another process may begin it at the same time
		reached, known, err = d.reachedBy(ctx, pool, k, p)
		if err != nil || known {
			return reached, known, err
		}
		result, err := pool.ExecContext(ctx, d.sql.sequence.begin, k.consumer, p.stream, p.number)
		if err != nil {
			return 0, false, err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return 0, false, err
		}
	}
	return 0, false, errors.New("the database did not insert it, nor is it there")
}

// reachedBy locks a stream, if it is there, and reads how far it has come.
func (d *Deduplicator) reachedBy(ctx context.Context, pool gorm.ConnPool, k key, p place) (number int64, known bool, err error) {
	rows, err := pool.QueryContext(ctx, d.sql.sequence.read, k.consumer, p.stream)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if known = rows.Next(); known {
		err = rows.Scan(&number)
	}
	return number, known, errors.Join(err, rows.Err())
}

// forgetHeld is how long a message is remembered that was held and has not come again, in addition to twice Sequence.HoldFor.
const forgetHeld = 10 * time.Minute

// hold waits until those before a message have come. It returns true if they have, false if the message has waited for long enough, and the error if its context has ended.
func (d *Deduplicator) hold(ctx context.Context, k key, gap *GapError) (come bool, err error) {
	const shortest, longest = 10 * time.Millisecond, time.Second
	limit := d.config.Sequence.HoldFor
	first, seen := d.held.LoadOrStore(k, time.Now())
	if !seen { // those that went on to other processes are never handled here
		d.held.Range(func(k, first any) bool {
			if time.Since(first.(time.Time)) > forgetHeld+2*limit { //nolint:forcetypeassert // nothing else is in it
				d.held.Delete(k)
			}
			return true
		})
	}
	d.config.Logger.DebugContext(ctx, "message held", slog.String("consumer", k.consumer), slog.String("message_id", k.id),
		slog.String("stream", gap.Stream), slog.Int64("number", gap.Number), slog.Int64("reached", gap.Reached))
	interval := min(max(limit/20, shortest), longest)
	for {
		left := limit - time.Since(first.(time.Time)) //nolint:forcetypeassert // nothing else is in it
		if left <= 0 {
			return false, nil
		}
		if !pause.Sleep(ctx, min(interval, left)) {
			return false, gap
		}
		come, err := exists(ctx, plainPool(d.db), d.sql.sequence.reached, k.consumer, gap.Stream, gap.Number-1)
		if err != nil {
			return false, &databaseError{fmt.Errorf("dedup: looking how far stream %q of consumer %q is: %w", gap.Stream, k.consumer, err)}
		}
		if come {
			return true, nil
		}
	}
}
