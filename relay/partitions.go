package relay

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/gormoutbox/outbox/internal/pause"
)

// maxStray is up to how many events in partitions that do not exist are counted.
const maxStray = 1000

// StrayError says that events are in partitions that do not exist, which no relay reads. Config.OnError gets it at the start
// of a relay and every ten minutes. The database refuses such events after gormoutbox.Repartition, so they are
// there because that did not come to its end, or because somebody has changed the tables by hand.
type StrayError struct {
	Table string
	// Pending is how many are not published, at most 1,000.
	Pending int
	// Kept says that published ones are among them, which retention and Replay pass over.
	Kept bool
	// Partitions is the present number of partitions.
	Partitions int
}

// Error implements error.
func (e *StrayError) Error() string {
	what := "published events are kept"
	if e.Pending > 0 {
		what = fmt.Sprintf("%d events wait", e.Pending)
		if e.Pending == maxStray {
			what = "at least " + what
		}
	}
	return fmt.Sprintf("relay: %s in partitions of %s that do not exist, where no relay reads, removes or replays them: call gormoutbox.Repartition with the present count, %d, which moves them",
		what, e.Table, e.Partitions)
}

// watchPartitions looks for events that nobody reads, at once and now and then until ctx ends.
func (r *Relay) watchPartitions(ctx context.Context) {
	for ok := true; ok; ok = pause.Sleep(ctx, nextSweep) {
		stray, err := r.store.strays(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.log(ctx, slog.LevelError, "relay could not look for events in partitions that do not exist and looks again later", err)
		case stray != nil:
			stray.Table = r.config.Table
			r.log(ctx, slog.LevelError, "relay found events in partitions that do not exist", stray)
		}
	}
}

// strays looks for events below the first and above the last partition, nil if there are none. The ends of the primary key say whether there
// may be some, except on SQLite, where it is a look at all rows as the sweep's is.
func (s *store) strays(ctx context.Context) (*StrayError, error) {
	none := true
	ends := "SELECT CASE WHEN MIN(e.part) < (SELECT MIN(part) FROM " + s.partitions + ") OR MAX(e.part) > (SELECT MAX(part) FROM " + s.partitions +
		") THEN 1 ELSE 0 END FROM " + s.events + " e"
	err := s.query(ctx, s.db, ends, nil, func(rows *sql.Rows) error {
		var some int
		err := rows.Scan(&some)
		none = some == 0
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for events in partitions that do not exist: %w", err)
	}
	if none {
		return nil, nil
	}
	below := "e.part < (SELECT MIN(part) FROM " + s.partitions + ")"
	above := "e.part > (SELECT MAX(part) FROM " + s.partitions + ")"
	from := " FROM " + s.events + " e WHERE "
	pending := func(where string) string {
		return fmt.Sprintf("(SELECT COUNT(*) FROM (SELECT e.seq%s%s AND e.processed_at IS NULL LIMIT %d) x)", from, where, maxStray)
	}
	kept := func(where string) string {
		return "EXISTS (SELECT 1" + from + where + " AND e.processed_at IS NOT NULL)"
	}
	query := "SELECT (SELECT COUNT(*) FROM " + s.partitions + "), " + pending(below) + " + " + pending(above) +
		", CASE WHEN " + kept(below) + " OR " + kept(above) + " THEN 1 ELSE 0 END"
	var e StrayError
	var some int
	err = s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error { return rows.Scan(&e.Partitions, &e.Pending, &some) })
	if err != nil {
		return nil, fmt.Errorf("looking for events in partitions that do not exist: %w", err)
	}
	e.Pending, e.Kept = min(e.Pending, maxStray), some == 1
	if e.Pending == 0 && !e.Kept {
		return nil, nil
	}
	return &e, nil
}
