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
	clock  bool // needs a program with a wrong clock
}

// kinds are all of them.
var kinds = []kind{
	{"relay killed", relaytest.Crash, 1, one(theRelays, killOne), false},
	{"relay frozen for 3 leases", relaytest.Crash, 1, one(theRelays, freezeOne), false},
	{"relays restarted one by one", relaytest.Graceful, 0, restartAll(theRelays), false},
	{"relay joins and leaves", relaytest.Graceful, 0, join(theRelays), false},
	{"relay's clock hours off", relaytest.Graceful, 0, one(theRelays, clockOff), true},
	{"writers killed", relaytest.Graceful, 0, killWriters, false},
	{"database killed", relaytest.Crash, relays, killDatabase, false},
	{"sessions terminated", relaytest.Crash, relays, killSessions, false},
	{"broker killed", relaytest.Crash, relays, killKafka, false},
	{"broker cut off", relaytest.Crash, relays, onProxies(viaKafka, cutOff), false},
	{"broker silent", relaytest.Crash, relays, onProxies(viaKafka, silence), false},
	{"broker slow", relaytest.Graceful, 0, onProxies(viaKafka, delays), false},
	{"database cut off", relaytest.Crash, relays, onProxies(viaDatabase, cutOff), false},
	{"database silent", relaytest.Crash, relays, onProxies(viaDatabase, silence), false},
	{"database slow", relaytest.Graceful, 0, onProxies(viaDatabase, delays), false},
}

// consumerKinds are those of consumers. None may make a relay publish anything twice.
var consumerKinds = []kind{
	{"consumer killed after commit", relaytest.Graceful, 0, one(theConsumers, killAfterCommit), false},
	{"consumer killed", relaytest.Graceful, 0, one(theConsumers, killOne), false},
	{"consumer frozen for 3 leases", relaytest.Graceful, 0, one(theConsumers, freezeOne), false},
	{"consumer's clock hours off", relaytest.Graceful, 0, one(theConsumers, clockOff), true},
	{"consumers restarted one by one", relaytest.Graceful, 0, restartAll(theConsumers), false},
	{"consumer joins and leaves", relaytest.Graceful, 0, join(theConsumers), false},
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
