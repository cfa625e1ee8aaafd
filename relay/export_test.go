package relay

import "time"

// RetainOften makes the relay remove old events every few milliseconds.
func RetainOften(r *Relay) { r.retainEvery = 5 * time.Millisecond }
