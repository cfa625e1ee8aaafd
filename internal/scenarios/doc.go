// Package scenarios has tests of what happens to an outbox for minutes on end: relays that
// come and go, a broker that is away, an event that can't be published with many behind it.
//
// By default they run in a small size, of some seconds each. OUTBOX_TEST_SCENARIOS=full
// runs them in the size that they are meant for, and OUTBOX_TEST_SCENARIOS_SEED with the
// random numbers of an earlier run:
//
//	make scenarios
package scenarios
