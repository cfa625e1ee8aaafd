//go:build linux

package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/dedup"
	"github.com/gormoutbox/outbox/relay/relaytest"
)

// history is what happens if all goes well to two events of an account, and to one that no handler can use.
type history struct {
	published, reserved, poisoned []received
	effects                       []effect
}

func wellDone() history {
	id := func(usable bool) string {
		for {
			if u := uuid.NewString(); unusable(u) != usable {
				return u
			}
		}
	}
	var h history
	for version := range int64(2) {
		e := received{UUID: id(true), Version: version + 1, Delivery: relaytest.Delivery{AggregateID: "7"}}
		out := dedup.OutputID(hopReserve, e.UUID, 0).String()
		h.published = append(h.published, e, e) // once more after a crash
		h.reserved = append(h.reserved, received{UUID: out})
		h.effects = append(h.effects, effect{Hop: hopReserve, Message: e.UUID, Account: 7, Version: e.Version}, effect{Hop: hopInvoice, Message: out, Account: 7, Version: e.Version})
	}
	bad := received{UUID: id(false), Version: 3}
	h.published = append(h.published, bad)
	h.poisoned = []received{{UUID: uuid.NewString(), Origin: bad.UUID}}
	return h
}

func (h history) compare() *hops { return compareHops(h.published, h.reserved, h.poisoned, h.effects) }

// TestHops: each thing that may go wrong is found, and nothing else.
func TestHops(t *testing.T) {
	t.Parallel()
	good := wellDone().compare()
	require.NoError(t, good.err())
	assert.Equal(t, [2]hop{{name: hopReserve, given: 2, handled: 2}, {name: hopInvoice, given: 2, handled: 2}}, good.hops)
	assert.Equal(t, [2]int{2, 1}, [2]int{good.outputs, good.poisoned})

	for name, planted := range map[string]struct {
		plant func(*history)
		count func(*hops) int
	}{
		"no effect":   {func(h *history) { h.effects = h.effects[:3] }, func(h *hops) int { return h.hops[1].lost }},
		"two effects": {func(h *history) { h.effects = append(h.effects, h.effects[3]) }, func(h *hops) int { return h.hops[1].doubled }},
		"an effect of nothing": {func(h *history) {
			h.effects[2].Message = "x"
			h.published = append(h.published[:2], h.published[4:]...)
			h.reserved = h.reserved[:1]
			h.effects = h.effects[:3]
		}, func(h *hops) int { return h.hops[0].invented }},
		"the wrong order":       {func(h *history) { h.effects[0], h.effects[2] = h.effects[2], h.effects[0] }, func(h *hops) int { return h.hops[0].inverted }},
		"no output":             {func(h *history) { h.reserved = h.reserved[1:] }, func(h *hops) int { return h.lostOutputs }},
		"an output of nothing":  {func(h *history) { h.reserved = append(h.reserved, received{UUID: "x"}) }, func(h *hops) int { return h.inventedOutputs }},
		"not in the poison":     {func(h *history) { h.poisoned = nil }, func(h *hops) int { return h.lostPoison }},
		"wrongly in the poison": {func(h *history) { h.poisoned = append(h.poisoned, received{Origin: h.published[0].UUID}) }, func(h *hops) int { return h.wrongPoison }},
		"an effect of a bad one": {func(h *history) {
			h.effects = append(h.effects, effect{Hop: hopReserve, Message: h.poisoned[0].Origin, Account: 7, Version: 3})
		}, func(h *hops) int { return h.hops[0].invented }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := wellDone()
			planted.plant(&h)
			found := h.compare()
			assert.Equal(t, 1, planted.count(found), found.markdown())
			require.Error(t, found.err())
			assert.Len(t, found.examples, 1)
		})
	}
}
