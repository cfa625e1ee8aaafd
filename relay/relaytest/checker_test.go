package relaytest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is an event of aggregate "a", named like its position.
func at(position int64) relaytest.Event {
	return relaytest.Event{ID: fmt.Sprint("e", position), AggregateType: "order", AggregateID: "a", Position: position}
}

// first is at(1) with another name.
func first(id string) relaytest.Event {
	e := at(1)
	e.ID = id
	return e
}

// script tells a checker of a history; deliveries are a second apart.
type script struct {
	*relaytest.Checker

	clock time.Time
}

func newScript(config relaytest.Config) *script {
	return &script{Checker: relaytest.NewChecker(config), clock: epoch}
}

func (s *script) commit(events ...relaytest.Event) {
	for _, e := range events {
		s.Intended(e)
		s.Committed(e.ID)
	}
}

func (s *script) deliver(events ...relaytest.Event) {
	for _, e := range events {
		s.deliverTo("0", e)
	}
}

func (s *script) deliverTo(stream string, e relaytest.Event) {
	s.clock = s.clock.Add(time.Second)
	s.Delivered(relaytest.Delivery{ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Stream: stream, At: s.clock})
}

// TestPlanted has a history for each kind of mistake and for what is none.
func TestPlanted(t *testing.T) {
	t.Parallel()
	type found map[relaytest.Kind]int
	free := relaytest.Event{ID: "free"}
	for name, c := range map[string]struct {
		tell func(s *script)
		want found
	}{
		"in order": {func(s *script) {
			s.commit(at(1), at(2), at(3))
			s.deliver(at(1), at(2), at(3))
		}, found{}},
		"delivered before the log is read": {func(s *script) {
			s.deliver(at(1), at(2))
			s.commit(at(1), at(2))
		}, found{}},
		"lost": {func(s *script) {
			s.commit(at(1), at(2), at(3))
			s.deliver(at(1), at(3))
		}, found{relaytest.Lost: 1}},
		"the last one is lost": {func(s *script) {
			s.commit(at(1), at(2))
			s.deliver(at(1))
		}, found{relaytest.Lost: 1}},
		"lost without an order": {func(s *script) {
			s.commit(free)
		}, found{relaytest.Lost: 1}},
		"never intended": {func(s *script) {
			s.deliver(at(1), free)
		}, found{relaytest.Invented: 2}},
		"rolled back": {func(s *script) {
			s.Intended(at(1))
			s.RolledBack("e1")
			s.deliver(at(1))
		}, found{relaytest.Invented: 1}},
		"rolled back and not delivered": {func(s *script) {
			s.Intended(at(1))
			s.RolledBack("e1")
			s.commit(first("again"))
			s.deliver(first("again"))
		}, found{}},
		"of another aggregate": {func(s *script) {
			s.commit(at(1))
			other := at(1)
			other.AggregateID = "b"
			s.deliver(other)
		}, found{relaytest.Invented: 1}},
		"of another aggregate, known later": {func(s *script) {
			other := at(1)
			other.AggregateID = "b"
			s.deliver(other)
			s.commit(at(1))
		}, found{relaytest.Invented: 1}},
		"inverted": {func(s *script) {
			s.commit(at(1), at(2), at(3))
			s.deliver(at(1), at(3), at(2))
		}, found{relaytest.Inverted: 1}},
		"two overtake one": {func(s *script) {
			s.commit(at(1), at(2), at(3))
			s.deliver(at(2), at(3), at(1))
		}, found{relaytest.Inverted: 2}},
		"a repeated prefix is no inversion": {func(s *script) {
			s.commit(at(1), at(2), at(3))
			s.deliver(at(1), at(2), at(1), at(2), at(3))
		}, found{relaytest.DuplicateUnexplained: 2}},
		"without an order nothing is inverted": {func(s *script) {
			a, b := relaytest.Event{ID: "a"}, relaytest.Event{ID: "b"}
			s.commit(a, b)
			s.deliver(b, a)
		}, found{}},
		"scattered": {func(s *script) {
			s.commit(at(1), at(2))
			s.deliverTo("0", at(1))
			s.deliverTo("1", at(2))
		}, found{relaytest.Scattered: 1}},
		"unknown and delivered": {func(s *script) {
			s.Intended(at(1))
			s.commit(at(2))
			s.deliver(at(1), at(2))
		}, found{}},
		"unknown at the end": {func(s *script) {
			s.commit(at(1))
			s.Intended(at(2))
			s.deliver(at(1))
		}, found{}},
		"unknown, delivered too late": {func(s *script) {
			s.Intended(at(1))
			s.commit(at(2))
			s.deliver(at(2), at(1))
		}, found{relaytest.Inverted: 1}},
		"unknown, but it must have committed": {func(s *script) {
			s.Intended(at(1))
			s.commit(at(2))
			s.deliver(at(2))
		}, found{relaytest.Lost: 1}},
		"one of two unknown ones must have committed": {func(s *script) {
			s.Intended(first("x"), first("y"))
			s.commit(at(2))
			s.deliver(at(2))
		}, found{relaytest.Lost: 1}},
		"one of two unknown ones has committed": {func(s *script) {
			s.Intended(first("x"), first("y"))
			s.commit(at(2))
			s.deliver(first("y"), at(2))
		}, found{}},
		"two unknown ones can't both have committed": {func(s *script) {
			s.Intended(first("x"), first("y"))
			s.deliver(first("y"), first("x"))
		}, found{relaytest.Invented: 1}},
		"unknown, but another has its place": {func(s *script) {
			s.Intended(first("x"))
			s.commit(at(1))
			s.deliver(first("x"), at(1))
		}, found{relaytest.Invented: 1}},
		"two have one place": {func(s *script) {
			s.commit(first("x"), first("y"))
			s.deliver(first("x"), first("y"))
		}, found{relaytest.Inconsistent: 1}},
		"a gap": {func(s *script) {
			s.commit(at(1), at(3))
			s.deliver(at(1), at(3))
		}, found{relaytest.Inconsistent: 1}},
		"both ends": {func(s *script) {
			s.commit(at(1))
			s.RolledBack("e1")
			s.deliver(at(1))
		}, found{relaytest.Inconsistent: 1}},
		"intended twice": {func(s *script) {
			s.commit(at(1))
			s.Intended(at(1))
			s.deliver(at(1))
		}, found{relaytest.Inconsistent: 1}},
		"committed and never intended": {func(s *script) {
			s.Committed("e1")
		}, found{relaytest.Inconsistent: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(relaytest.Config{})
			c.tell(s)
			r := s.Report()
			got := found{}
			for k, n := range r.Found {
				if n > 0 {
					got[relaytest.Kind(k)] = n
				}
			}
			assert.Equal(t, c.want, got, "%s", r)
			if len(c.want) == 0 {
				require.NoError(t, r.Err())
			} else {
				require.ErrorIs(t, r.Err(), relaytest.ErrBroken)
			}
			assert.Equal(t, r, s.Report(), "asking changes nothing")
		})
	}
}

func TestGapsThatAreAllowed(t *testing.T) {
	t.Parallel()
	s := newScript(relaytest.Config{Sparse: true})
	s.commit(at(1), at(5))
	s.Intended(at(3))
	s.deliver(at(1), at(5))
	require.NoError(t, s.Report().Err())
}

func TestDuplicatesByWindows(t *testing.T) {
	t.Parallel()
	second := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	s := newScript(relaytest.Config{Cause: relaytest.ByWindows(
		relaytest.Window{Name: "kill", Cause: relaytest.Crash, From: second(3), To: second(3)},
		relaytest.Window{Name: "stop", Cause: relaytest.Graceful, From: second(2), To: second(4)},
	)})
	s.commit(at(1))
	for range 5 { // one a second; the first is no duplicate
		s.deliver(at(1))
	}
	r := s.Report()
	assert.Equal(t, 2, r.Duplicates(relaytest.Graceful))
	assert.Equal(t, 1, r.Duplicates(relaytest.Crash))
	assert.Equal(t, 1, r.Duplicates(relaytest.Unexplained))
	require.ErrorIs(t, r.Err(), relaytest.ErrBroken)
}

func TestDuplicatesOfCrashesAreNoError(t *testing.T) {
	t.Parallel()
	s := newScript(relaytest.Config{Cause: func(relaytest.Duplicate) relaytest.Cause { return relaytest.Crash }})
	s.commit(at(1))
	s.deliver(at(1), at(1))
	require.NoError(t, s.Report().Err())
}

func TestCauseKnowsBothDeliveries(t *testing.T) {
	t.Parallel()
	var got []relaytest.Duplicate
	s := newScript(relaytest.Config{Cause: func(d relaytest.Duplicate) relaytest.Cause {
		got = append(got, d)
		return relaytest.Crash
	}})
	s.commit(at(1))
	s.deliver(at(1), at(1))
	require.Len(t, got, 1)
	assert.Equal(t, "e1", got[0].ID)
	assert.True(t, got[0].First.Equal(epoch.Add(time.Second)))
	assert.Equal(t, epoch.Add(2*time.Second), got[0].At)
}

func TestReportShowsExamples(t *testing.T) {
	t.Parallel()
	s := newScript(relaytest.Config{Examples: 2})
	s.commit(at(1), at(2), at(3), at(4))
	s.deliver(at(4))
	r := s.Report()
	assert.Equal(t, 3, r.Lost())
	assert.Len(t, r.Examples[relaytest.Lost], 2)
	assert.Contains(t, r.String(), "lost: e1 (order a, number 1): it was committed and never delivered")
	assert.Contains(t, r.String(), "4 events intended: 4 committed, 0 rolled back, 0 unknown")
}

// TestManyTell is for the race detector.
func TestManyTell(t *testing.T) {
	t.Parallel()
	s := relaytest.NewChecker(relaytest.Config{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				e := relaytest.Event{ID: fmt.Sprint(w, "/", i), AggregateType: "order", AggregateID: fmt.Sprint(w), Position: int64(i + 1)}
				s.Intended(e)
				s.Delivered(relaytest.Delivery{ID: e.ID, AggregateType: "order", AggregateID: e.AggregateID, At: epoch})
				s.Committed(e.ID)
				if i%50 == 0 {
					_ = s.Report().String()
				}
			}
		})
	}
	wg.Wait()
	r := s.Report()
	require.NoError(t, r.Err())
	assert.Equal(t, 1600, r.Delivered)
}
