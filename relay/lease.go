package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// lease is the right to publish the events of a partition.
type lease struct {
	part  int
	token string
	// low is the mark that the last owner saved.
	low int64
	// until is when the lease ends by this process's monotonic clock. It is counted from
	// before the statement that took it, so it ends no later than in the database.
	until time.Time
}

// leases are the partitions that this relay owns. The loop claims and gives back;
// the heartbeat only renews, so that partitions change hands between batches, when
// nothing of them is in flight.
type leases struct {
	store *store
	id    string
	ttl   time.Duration
	now   func() time.Time

	mu    sync.Mutex
	owned map[int]lease
	// nextBalance is when to look again at how many partitions are due to us.
	nextBalance time.Time
}

func newLeases(s *store, id string, ttl time.Duration) *leases {
	return &leases{store: s, id: id, ttl: ttl, now: time.Now, owned: map[int]lease{}}
}

// current lists the leases that have not run out, by partition.
func (l *leases) current() []lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	out := make([]lease, 0, len(l.owned))
	for _, le := range l.owned {
		if now.Before(le.until) {
			out = append(out, le)
		}
	}
	slices.SortFunc(out, func(a, b lease) int { return a.part - b.part })
	return out
}

// valid says whether the partition may still be published.
func (l *leases) valid(part int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	le, ok := l.owned[part]
	return ok && l.now().Before(le.until)
}

func (l *leases) drop(parts []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		delete(l.owned, p)
	}
}

func (l *leases) all() []lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]lease, 0, len(l.owned))
	for _, le := range l.owned {
		out = append(out, le)
	}
	slices.SortFunc(out, func(a, b lease) int { return a.part - b.part })
	return out
}

// renew prolongs all leases and the sign of life. It is the heartbeat's one pass.
func (l *leases) renew(ctx context.Context) error {
	// Leases first: without the sign of life nothing worse happens than another share.
	return errors.Join(l.prolong(ctx), l.alive(ctx))
}

func (l *leases) prolong(ctx context.Context) error {
	begin := l.now()
	mine := l.all()
	if len(mine) == 0 {
		return nil
	}
	kept, err := l.store.renew(ctx, mine, l.ttl)
	if err != nil {
		return fmt.Errorf("renewing leases: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range mine {
		now, ok := l.owned[le.part]
		if !ok || now.token != le.token {
			continue
		}
		if !kept[le.part] {
			delete(l.owned, le.part)
			continue
		}
		now.until = begin.Add(l.ttl)
		l.owned[le.part] = now
	}
	return nil
}

func (l *leases) alive(ctx context.Context) error {
	if err := l.store.alive(ctx, l.id, l.ttl); err != nil {
		return fmt.Errorf("giving a sign of life: %w", err)
	}
	return nil
}

// balance takes free partitions up to this relay's share and gives back what is
// above it. It is called between batches and does nothing most of the time.
func (l *leases) balance(ctx context.Context, low func(lease) int64) error {
	if !l.due() {
		return nil
	}
	mine := l.all()
	if err := l.store.saveLow(ctx, mine, low); err != nil {
		return fmt.Errorf("saving low marks: %w", err)
	}
	share, err := l.store.share(ctx)
	if err != nil {
		return fmt.Errorf("counting relays: %w", err)
	}
	switch {
	case len(mine) > share:
		extra := mine[share:]
		l.drop(partsOf(extra)) // first: if this fails they may be somebody else's all the same
		if err := l.store.release(ctx, extra); err != nil {
			return fmt.Errorf("giving back partitions: %w", err)
		}
	case len(mine) < share:
		begin := l.now()
		claimed, err := l.store.claim(ctx, l.id, share-len(mine), l.ttl)
		if err != nil {
			return fmt.Errorf("claiming partitions: %w", err)
		}
		l.mu.Lock()
		for _, le := range claimed {
			le.until = begin.Add(l.ttl)
			l.owned[le.part] = le
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.nextBalance = l.now().Add(l.ttl / 3)
	l.mu.Unlock()
	return nil
}

// due says whether it is time to balance.
func (l *leases) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.now().Before(l.nextBalance)
}

// release gives everything back at the end of Run.
func (l *leases) release(ctx context.Context, low func(lease) int64) error {
	mine := l.all()
	l.drop(partsOf(mine))
	if err := l.store.saveLow(ctx, mine, low); err != nil {
		return fmt.Errorf("saving low marks: %w", err)
	}
	if err := l.store.release(ctx, mine); err != nil {
		return fmt.Errorf("giving back partitions: %w", err)
	}
	if err := l.store.gone(ctx, l.id); err != nil {
		return fmt.Errorf("signing off: %w", err)
	}
	return nil
}

func partsOf(ls []lease) []int {
	out := make([]int, len(ls))
	for i, le := range ls {
		out[i] = le.part
	}
	return out
}

// alive records that the relay lives, and forgets those that have not for long.
func (s *store) alive(ctx context.Context, id string, ttl time.Duration) error {
	until := s.dialect.NowPlus(ttl)
	n, err := s.exec(ctx, s.db, "UPDATE "+s.relays+" SET expires_at = "+until+" WHERE id = ?", id)
	if err != nil || n > 0 {
		return err
	}
	_, err = s.exec(ctx, s.db, "INSERT INTO "+s.relays+" (id, expires_at) SELECT ?, "+until+
		" FROM (SELECT 1 AS one) o WHERE NOT EXISTS (SELECT 1 FROM "+s.relays+" WHERE id = ?)", id, id)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, s.db, "DELETE FROM "+s.relays+" WHERE expires_at < "+s.dialect.NowPlus(-10*ttl))
	return err
}

func (s *store) gone(ctx context.Context, id string) error {
	_, err := s.exec(ctx, s.db, "DELETE FROM "+s.relays+" WHERE id = ?", id)
	return err
}

// share is how many partitions one of the living relays may have at most.
func (s *store) share(ctx context.Context) (share int, err error) {
	query := "SELECT (SELECT COUNT(*) FROM " + s.partitions + "), (SELECT COUNT(*) FROM " + s.relays + " WHERE expires_at > " + s.dialect.Now() + ")"
	err = s.query(ctx, s.db, query, nil, func(rows *sql.Rows) error {
		var parts, relays int
		if err := rows.Scan(&parts, &relays); err != nil {
			return err
		}
		relays = max(relays, 1)
		share = (parts + relays - 1) / relays
		return nil
	})
	return share, err
}

// claim takes up to n partitions that nobody owns, under a new token.
func (s *store) claim(ctx context.Context, owner string, n int, ttl time.Duration) (out []lease, err error) {
	token := uuid.NewString()
	find := "SELECT part FROM " + s.partitions + " WHERE expires_at IS NULL OR expires_at < " + s.dialect.Now() + " ORDER BY part LIMIT ?" + s.dialect.SkipLocked()
	take := "UPDATE " + s.partitions + s.byPart + " SET owner = ?, token = ?, expires_at = " + s.dialect.NowPlus(ttl) + " WHERE "
	if s.dialect.Name() == "mysql" {
		err = s.transaction(ctx, func(tx *sql.Tx) error { return s.claimFound(ctx, tx, find, take, owner, token, n) })
	} else {
		// MATERIALIZED: a plan that runs the locking subquery twice would take more than n.
		_, err = s.exec(ctx, s.db, "WITH f AS MATERIALIZED ("+find+") "+take+"part IN (SELECT part FROM f)", n, owner, token)
	}
	if err != nil {
		return nil, err
	}
	err = s.query(ctx, s.db, "SELECT part, low FROM "+s.partitions+" WHERE token = ? ORDER BY part", []any{token}, func(rows *sql.Rows) error {
		le := lease{token: token}
		err := rows.Scan(&le.part, &le.low)
		out = append(out, le)
		return err
	})
	return out, err
}

// claimFound is claim for MySQL, whose UPDATE takes no locking subquery on the same table.
func (s *store) claimFound(ctx context.Context, tx *sql.Tx, find, take, owner, token string, n int) error {
	var parts []int64
	err := s.query(ctx, tx, find, []any{n}, func(rows *sql.Rows) error {
		var part int64
		err := rows.Scan(&part)
		parts = append(parts, part)
		return err
	})
	if err != nil || len(parts) == 0 {
		return err
	}
	in, args := s.dialect.IntsIn("part", parts)
	_, err = s.exec(ctx, tx, take+in, append([]any{owner, token}, args...)...)
	return err
}

// renew prolongs the leases that are still ours and says which are.
func (s *store) renew(ctx context.Context, mine []lease, ttl time.Duration) (kept map[int]bool, err error) {
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	in, args := s.partsIn("part", mine)
	where := in + " AND " + tokensIn("token", mine)
	if _, err := s.exec(ctx, s.db, "UPDATE "+s.partitions+s.byPart+" SET expires_at = "+s.dialect.NowPlus(ttl)+" WHERE "+where, args...); err != nil {
		return nil, err
	}
	kept = make(map[int]bool, len(mine))
	err = s.query(ctx, s.db, "SELECT part FROM "+s.partitions+" WHERE "+where, args, func(rows *sql.Rows) error {
		var part int
		err := rows.Scan(&part)
		kept[part] = true
		return err
	})
	return kept, err
}

// saveLow saves where the next owner begins to read.
func (s *store) saveLow(ctx context.Context, mine []lease, low func(lease) int64) error {
	if len(mine) == 0 {
		return nil
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	var b strings.Builder
	for _, le := range mine {
		fmt.Fprintf(&b, " WHEN %d THEN %d", le.part, low(le))
	}
	in, args := s.partsIn("part", mine)
	_, err := s.exec(ctx, s.db, "UPDATE "+s.partitions+s.byPart+" SET low = CASE part"+b.String()+" ELSE low END WHERE "+in+" AND "+tokensIn("token", mine), args...)
	return err
}

// release gives partitions back to whoever claims them next.
func (s *store) release(ctx context.Context, mine []lease) error {
	if len(mine) == 0 {
		return nil
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	in, args := s.partsIn("part", mine)
	_, err := s.exec(ctx, s.db, "UPDATE "+s.partitions+s.byPart+" SET owner = '', token = '', expires_at = NULL WHERE "+in+" AND "+tokensIn("token", mine), args...)
	return err
}
