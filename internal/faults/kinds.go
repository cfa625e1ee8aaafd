//go:build linux

package main

import (
	"context"
	"math/rand/v2"
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
	// happen makes it happen and returns when it is over.
	happen func(ctx context.Context, h *harness, random *rand.Rand) error
}

// kinds are all of them.
var kinds = []kind{
	{"relay killed", relaytest.Crash, 1, killRelay},
	{"relay frozen for 3 leases", relaytest.Crash, 1, freezeRelay},
	{"relays restarted one by one", relaytest.Graceful, 0, restartRelays},
	{"relay joins and leaves", relaytest.Graceful, 0, joinRelay},
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

// kindsNamed returns all kinds if there are no names.
func kindsNamed(names []string) ([]kind, error) {
	if len(names) == 0 {
		return kinds, nil
	}
	var some []kind
	for _, name := range names {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return nil, &kindError{name}
		}
		some = append(some, kinds[i])
	}
	return some, nil
}
