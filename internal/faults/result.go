//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// result is what a run found.
type result struct {
	options

	steps  []step
	report relaytest.Report
	// wrong has what must not happen and is not in the report.
	wrong        []error
	took         time.Duration
	poison, slow int
	// hops is nil without consumers.
	hops *hops
}

// judge reads the journals and what was consumed, and decides.
func (h *harness) judge(steps []step, took time.Duration) (*result, error) {
	r := &result{options: h.options, steps: steps, took: took}
	checker := relaytest.NewChecker(relaytest.Config{Examples: 10, Cause: r.attribute})
	versions := map[string]int64{}
	for i := range processes {
		if err := readJournal(h.journal(i), checker, func(e relaytest.Event) { versions[e.ID] = e.Position }); err != nil {
			return nil, err
		}
	}
	if err := h.writeDeliveries(); err != nil {
		return nil, err
	}
	ids := map[string]string{} // message UUIDs by event
	for _, d := range h.published.all {
		checker.Delivered(d.Delivery)
		version, known := versions[d.ID]
		switch {
		case d.bad != "":
			h.blame(fmt.Errorf("partition %s, offset %d: %s", d.Stream, d.Offset, d.bad))
		case known && d.Version != version:
			h.blame(fmt.Errorf("event %s was written with version %d and delivered with %d", d.ID, version, d.Version))
		case cmp.Or(ids[d.ID], d.UUID) != d.UUID:
			h.blame(fmt.Errorf("event %s was delivered with the ids %s and %s", d.ID, ids[d.ID], d.UUID))
		}
		ids[d.ID] = d.UUID
	}
	r.report = checker.Report()
	for _, s := range steps {
		if most := s.most(); s.Cause == relaytest.Crash && s.duplicates > most {
			h.blame(fmt.Errorf("%s caused %d duplicates, but no more than %d can have been in flight", s.Name, s.duplicates, most))
		}
	}
	notes, err := h.readNotes(publisherNotes)
	if err != nil {
		return nil, err
	}
	r.poison, r.slow = bytes.Count(notes, []byte("poison")), bytes.Count(notes, []byte("slow"))
	if h.options.consumers > 0 {
		if r.hops, err = h.judgeHops(); err != nil {
			return nil, err
		}
	}
	if h.noted < h.skewed {
		h.blame(fmt.Errorf("%d processes were started with a wrong clock, and %d had one", h.skewed, h.noted))
	}
	r.wrong = h.wrong
	return r, nil
}

// most is how many duplicates a step may cause, for each relay and fault: the batch that is published and the one that is recorded meanwhile.
func (s step) most() int {
	n := 0
	for _, k := range s.kinds {
		n += k.relays * 2 * batchSize
	}
	return n
}

// attribute finds the cause of a duplicate and counts it.
func (r *result) attribute(d relaytest.Duplicate) relaytest.Cause {
	for i := range r.steps {
		if r.steps[i].Contains(d.At) {
			r.steps[i].duplicates++
			return r.steps[i].Cause
		}
	}
	return relaytest.Unexplained
}

// writeDeliveries leaves what was consumed beside the journals.
func (h *harness) writeDeliveries() error {
	var b bytes.Buffer
	for _, d := range h.published.all {
		fmt.Fprintf(&b, "%s %s/%d %s %s %s %d\n", d.At.Format(time.RFC3339Nano), d.Stream, d.Offset, d.ID, d.UUID, d.AggregateID, d.Version)
	}
	return os.WriteFile(filepath.Join(h.folder, "deliveries"), b.Bytes(), 0o644)
}

// err returns what was found, or nil.
func (r *result) err() error {
	if r == nil {
		return nil
	}
	return errors.Join(append(r.wrong, r.report.Err(), r.hops.err())...)
}

// line is a row of the table.
type line struct {
	steps, duplicates int
	recovery          time.Duration
	cause             relaytest.Cause
}

// markdown is the report.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, %s, %d relays, %d writers, leases of %s, in the background %d failures of poison events, %d publishes longer than a lease, a snapshot held open\n\n",
		r.database, r.seed, r.took.Round(time.Second), relays, writers, r.lease, r.poison, r.slow)
	b.WriteString("| fault | times | duplicates | allowed | longest recovery |\n| --- | ---: | ---: | --- | ---: |\n")
	lines := map[string]*line{}
	for _, s := range r.steps {
		l := lines[s.Name]
		if l == nil {
			l = &line{cause: s.Cause}
			lines[s.Name] = l
		}
		l.steps++
		l.duplicates += s.duplicates
		l.recovery = max(l.recovery, s.recovery)
	}
	for _, name := range sortedKeys(lines) {
		l := lines[name]
		allowed := "none"
		if l.cause == relaytest.Crash {
			allowed = "those in flight"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %.1f s |\n", name, l.steps, l.duplicates, allowed, l.recovery.Seconds())
	}
	p := r.report
	fmt.Fprintf(&b, "\n| intended | committed | rolled back | unknown | delivered | lost | invented | inverted | scattered | duplicates: crash | graceful | unexplained |\n%s\n",
		"| ---: "+strings.Repeat("| ---: ", 11)+"|")
	fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", p.Intended, p.Committed, p.RolledBack, p.Unknown, p.Delivered,
		p.Lost(), p.Invented(), p.Inverted(), p.Found[relaytest.Scattered], p.Duplicates(relaytest.Crash), p.Duplicates(relaytest.Graceful), p.Duplicates(relaytest.Unexplained))
	if r.hops != nil {
		b.WriteString("\n" + r.hops.markdown())
	}
	if r.err() != nil {
		fmt.Fprintf(&b, "\n%s", p)
		for _, err := range r.wrong {
			fmt.Fprintf(&b, "- %v\n", err)
		}
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
