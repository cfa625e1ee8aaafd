// Package relaytest checks what a relay, or any other way from an outbox to a
// broker, made of a history of events.
//
// A [Checker] is told what writers intended, committed and rolled back and what a
// consumer received, and says what was lost, invented, delivered out of order
// or more than once. It keeps about 150 bytes an event.
//
// [TestPublisher] is for authors of Watermill publishers: it proves that one works under a relay.
package relaytest
