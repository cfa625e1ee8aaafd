//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/gormoutbox/outbox/dedup"
)

// hop is what came of what a handler was given.
type hop struct {
	name string
	// given is how many messages were published for it, handled how many of them had an effect.
	given, handled int
	// lost had no effect, doubled more than one, invented one without having been published, inverted one behind that of a later state of the account.
	lost, doubled, invented, inverted int
}

// hops are both, with the messages between them.
type hops struct {
	hops [2]hop
	// outputs is how many messages of the first hop came out of the outbox; lostOutputs are missing, inventedOutputs have another id than they must.
	outputs, lostOutputs, inventedOutputs int
	// poisoned is how many unusable messages came to the poison queue; lostPoison are those that did not, wrongPoison others that did.
	poisoned, lostPoison, wrongPoison int
	// Notes of the consumers.
	duplicates, nacked, killed int
	examples                   []string
}

// example keeps a few findings for the report.
func (h *hops) example(format string, args ...any) {
	if len(h.examples) < 10 {
		h.examples = append(h.examples, fmt.Sprintf(format, args...))
	}
}

// judgeHops compares effects with what was published.
func (h *harness) judgeHops() (*hops, error) {
	var effects []effect
	if err := h.gorm.Order("id").Find(&effects).Error; err != nil {
		return nil, err
	}
	result := compareHops(h.published.all, h.reserved.all, h.poisoned.all, effects)
	for _, r := range []*reader{h.reserved, h.poisoned} {
		for _, d := range r.all {
			if d.bad != "" {
				h.blame(fmt.Errorf("%s, partition %s, offset %d: %s", r.topic, d.Stream, d.Offset, d.bad))
			}
		}
	}
	notes, err := h.readNotes(consumerNotes)
	if err != nil {
		return nil, err
	}
	result.duplicates, result.nacked = bytes.Count(notes, []byte("duplicate\n")), bytes.Count(notes, []byte("nacked\n"))
	result.killed = bytes.Count(notes, []byte("killed"))
	return result, nil
}

func compareHops(published, reserved, poisoned []received, effects []effect) *hops {
	h := &hops{hops: [2]hop{{name: hopReserve}, {name: hopInvoice}}}
	// What each handler must have done: for the first all but what it can't use, for the second all that the first has returned.
	unused, outputs := map[string]bool{}, map[string]bool{}
	want := [2]map[string]bool{{}, {}}
	for _, d := range published {
		if unusable(d.UUID) {
			unused[d.UUID] = true
			continue
		}
		want[0][d.UUID] = true
		out := dedup.OutputID(hopReserve, d.UUID, 0).String()
		outputs[out], want[1][out] = true, true
	}
	for i := range h.hops {
		h.hops[i].compare(want[i], effects, h.example)
	}

	seen := map[string]bool{}
	for _, d := range reserved {
		if !outputs[d.UUID] {
			h.inventedOutputs++
			h.example("message %s came out of the outbox, made by nobody", d.UUID)
		}
		seen[d.UUID] = true
	}
	h.outputs = len(seen) - h.inventedOutputs
	for id := range outputs {
		if !seen[id] {
			h.lostOutputs++
			h.example("message %s did not come out of the outbox", id)
		}
	}

	seen = map[string]bool{}
	for _, d := range poisoned {
		if !unused[d.Origin] && !seen[d.Origin] {
			h.wrongPoison++
			h.example("message %s is in the poison queue", d.Origin)
		}
		seen[d.Origin] = true
	}
	for id := range unused {
		if seen[id] {
			h.poisoned++
		} else {
			h.lostPoison++
			h.example("message %s is not in the poison queue", id)
		}
	}
	return h
}

// compare compares effects with the messages that must have one. Effects are in the order in which they were made.
func (h *hop) compare(want map[string]bool, effects []effect, example func(string, ...any)) {
	h.given = len(want)
	seen, last := map[string]bool{}, map[int]int64{}
	for _, e := range effects {
		if e.Hop != h.name {
			continue
		}
		switch {
		case !want[e.Message]:
			h.invented++
			example("%s: an effect of %s, which must have none", h.name, e.Message)
		case seen[e.Message]:
			h.doubled++
			example("%s: two effects of %s", h.name, e.Message)
		case e.Version <= last[e.Account]:
			h.inverted++
			example("%s: account %d: version %d behind %d", h.name, e.Account, e.Version, last[e.Account])
		}
		if !seen[e.Message] && want[e.Message] {
			h.handled++
		}
		seen[e.Message] = true
		last[e.Account] = max(last[e.Account], e.Version)
	}
	for id := range want {
		if !seen[id] {
			h.lost++
			example("%s: no effect of %s", h.name, id)
		}
	}
}

// hopsError says what the consumers did wrong.
type hopsError struct{ hops *hops }

func (e *hopsError) Error() string {
	return "consumers:\n" + e.hops.markdown() + strings.Join(e.hops.examples, "\n")
}

// err returns what was found, or nil.
func (h *hops) err() error {
	if h == nil {
		return nil
	}
	wrong := h.lostOutputs + h.inventedOutputs + h.lostPoison + h.wrongPoison
	for _, one := range h.hops {
		wrong += one.lost + one.doubled + one.invented + one.inverted
	}
	if wrong == 0 {
		return nil
	}
	return &hopsError{h}
}

// markdown is the report's part about consumers.
func (h *hops) markdown() string {
	var b strings.Builder
	b.WriteString("| handler | messages | handled | lost | doubled | invented | inverted |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, one := range h.hops {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", one.name, one.given, one.handled, one.lost, one.doubled, one.invented, one.inverted)
	}
	fmt.Fprintf(&b, "\n%d outputs, %d lost, %d invented; %d unusable messages in the poison queue, %d lost, %d others in it; "+
		"%d deliveries were duplicates, %d were nacked, %d times a consumer was killed between commit and ack\n",
		h.outputs, h.lostOutputs, h.inventedOutputs, h.poisoned, h.lostPoison, h.wrongPoison, h.duplicates, h.nacked, h.killed)
	return b.String()
}
