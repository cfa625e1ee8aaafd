//go:build linux

package main

import (
	"slices"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// kind is a kind of fault.
type kind struct {
	name string
	// cause is Crash if it may cause duplicates, and Graceful if it must not.
	cause relaytest.Cause
	// relays is how many relays may publish once more what they had in flight; it bounds the duplicates of a Crash.
	relays int
	happen happening
}

// kinds are all of them.
var kinds = []kind{
	{"relay killed", relaytest.Crash, 1, one(theRelays, killOne)},
	{"relay frozen for 3 leases", relaytest.Crash, 1, one(theRelays, freezeOne)},
	{"relays restarted one by one", relaytest.Graceful, 0, restartAll(theRelays)},
	{"relay joins and leaves", relaytest.Graceful, 0, join(theRelays)},
	{"writers killed", relaytest.Graceful, 0, killWriters},
	{"database killed", relaytest.Crash, relays, killDatabase},
	{"sessions terminated", relaytest.Crash, relays, killSessions},
	{"broker killed", relaytest.Crash, relays, killKafka},
	{"broker cut off", relaytest.Crash, relays, onProxies(viaKafka, cutOff)},
	{"broker silent", relaytest.Crash, relays, onProxies(viaKafka, silence)},
	{"broker slow", relaytest.Graceful, 0, onProxies(viaKafka, delays)},
	{"database cut off", relaytest.Crash, relays, onProxies(viaDatabase, cutOff)},
	{"database silent", relaytest.Crash, relays, onProxies(viaDatabase, silence)},
	{"database slow", relaytest.Graceful, 0, onProxies(viaDatabase, delays)},
}

// consumerKinds are those of consumers. None may make a relay publish anything twice.
var consumerKinds = []kind{
	{"consumer killed after commit", relaytest.Graceful, 0, one(theConsumers, killAfterCommit)},
	{"consumer killed", relaytest.Graceful, 0, one(theConsumers, killOne)},
	{"consumer frozen for 3 leases", relaytest.Graceful, 0, one(theConsumers, freezeOne)},
	{"consumers restarted one by one", relaytest.Graceful, 0, restartAll(theConsumers)},
	{"consumer joins and leaves", relaytest.Graceful, 0, join(theConsumers)},
}

func theRelays(h *harness) *team { return &h.relays }

func theConsumers(h *harness) *team { return &h.consumers }

// kindsFor returns the kinds with the names, or all if there are none; those of consumers only if there are any.
func kindsFor(o options) ([]kind, error) {
	all := kinds
	if o.consumers > 0 {
		all = append(slices.Clip(kinds), consumerKinds...)
	}
	if len(o.kinds) == 0 {
		return all, nil
	}
	var some []kind
	for _, name := range o.kinds {
		i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, &kindError{name}
		}
		some = append(some, all[i])
	}
	return some, nil
}
