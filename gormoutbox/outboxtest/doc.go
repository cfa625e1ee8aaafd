// Package outboxtest helps to test code that writes to an outbox: what events it has recorded, and what becomes of them.
//
//	db := openTestDatabase(t)              // with the plugin and its tables
//	service.Place(ctx, db, order)
//	outboxtest.RequireEvents(t, db, outboxtest.Event{Type: "order.created", AggregateID: order.ID.String()})
//
//	broker := &outboxtest.Broker{}         // a publisher in memory
//	broker.FailNext(errors.New("away"))
//	outboxtest.Drain(t, db, broker)        // what a relay would publish
//
// It links no test library.
//
// The outbox goes by the clock of the database, which can't be stopped. Instead [Advance] makes everything in it older.
package outboxtest
