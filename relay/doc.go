// Package relay publishes the events of an outbox through any Watermill
// publisher: in order per aggregate, at least once, with any number of relays.
//
//	r, err := relay.New(db, publisher, relay.Config{})
//	err = r.Run(ctx) // or router.AddPlugin(r.RouterPlugin)
//
// Each relay leases a share of the partitions. A pass reads pending events of
// its partitions, publishes them with one lane per aggregate, and records what
// was published; no transaction is open meanwhile. An event that fails is tried
// again with a growing pause while its aggregate waits, and is parked when it has used
// up its attempts. A broker that is away is told from that: nothing is charged
// to the events and the relay waits as a whole.
//
// The order is the commit order of an aggregate's events, provided that the
// database serializes the writers of the aggregate: they change or lock its row.
// Within a broker it holds per topic, so events of one aggregate should share a
// topic (topic= in the tag, or gormoutbox.TopicByAggregate).
package relay
