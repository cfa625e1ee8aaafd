// Package dedup makes Watermill handlers idempotent: what a handler writes for
// a message is committed once per consumer, however often the message comes.
//
// Brokers deliver at least once, and so does an outbox. The middleware begins a
// transaction, records (consumer, message id) in the table processed_events and
// runs the handler, which writes through the same transaction:
//
//	err := dedup.Migrate(ctx, db) // or apply dedup.Migrations with your own tool
//	d, err := dedup.New(db, dedup.Config{})
//
//	err = chain.Install(router, d, chain.Config{}) // of package dedup/chain: d.Middleware among those that belong around it
//	router.AddConsumerHandler("stock", "order.created", sub, func(msg *message.Message) error {
//		return dedup.Tx(msg.Context()).Create(&Reservation{ /* … */ }).Error
//	})
//
// Record and effect commit together or not at all:
//
//   - A handler that fails, or panics, leaves nothing behind. The error goes
//     back unchanged, the message is nacked, and the handler runs again.
//   - A message that was handled before is acked without running the handler.
//   - Two deliveries of one message at the same time: the second waits until the
//     first has ended, then finds a duplicate, or runs if the first failed.
//   - A crash between commit and ack is a redelivery, so a duplicate.
//
// [Do] is the same without a router, for webhooks and jobs. Records are kept until [Deduplicator.Purge] or [Deduplicator.Run] removes them.
//
// This covers what is written through [Tx], and nothing else: not another
// connection, not a request to another service.
//
// # Order of middlewares
//
// Outermost first:
//
//	metrics                              sees duplicates as successes; Deduplicator.Stats tells them apart
//	PoisonQueue                          turns an error into success: inside of dedup it would make
//	                                     dedup commit the work that failed
//	Retry{ResetContextOnRetry: true}     inside of dedup every attempt would share one transaction,
//	                                     which PostgreSQL has aborted after the first
//	Timeout                              bounds the wait for the record and the handler's statements
//	dedup
//	CorrelationID                        sees what the handler returns
//	Recoverer                            turns a panic into an error; dedup rolls back either way
//
// Package chain installs them in this order, and [CheckOrder] recognises harmful ones.
// IgnoreErrors belongs outside, like PoisonQueue. InstantAck and handlers that
// ack by themselves give the message away before the commit. Errors of types
// [KeyError] and [SequenceError], and [ErrProducedMessages] and [ErrNested], don't go away by
// retrying: leave them out with Retry.ShouldRetry. [ErrDatabase], [ErrBusy] and [GapError] are not the message's fault: keep them from PoisonQueue. Middlewares of a handler that
// are added before those of the router stand outside of them; add dedup in one
// place only ([ErrNested] tells when it is there twice).
//
// # Contexts
//
// The handler's statements run under the message's context. The transaction
// does not: a router that closes cancels the contexts of all messages at once,
// and a handler that returns nil after that has done its work, which is
// committed. [Config].CommitTimeout bounds how long. A handler that returns an
// error is rolled back in any case.
//
// # Messages that a handler returns
//
// They are written to the outbox of the *gorm.DB, in the same transaction, for the handler's publish topic and under ids that
// are the same each time ([OutputID]), and the middleware returns none. The relay publishes them. The router would do so after the
// commit; if that failed they would be lost, since the next delivery is a duplicate. So without an outbox they are refused with
// [ErrProducedMessages].
//
// A handler may also publish through a watermilladapter.Publisher with the message's context, and so may Watermill's EventBus and
// CommandBus: that is the same transaction.
//
// # Sequence numbers
//
// With [Config].Sequence the middleware looks at the numbers of an aggregate's events: late ones are skipped or handled, and those behind a gap are told, or held for a
// time until the missing ones have come.
//
// # Databases
//
// Every handler in flight holds one connection, and so does every delivery that
// waits for another one of the same message. A handler that takes further
// connections from the same pool can starve, as in any transaction.
//
// PostgreSQL and MySQL/MariaDB report deadlocks and serialization conflicts as
// errors of the handler's statements or of the commit: the message is nacked and
// comes again. SQLite has one writer, so handlers run one after the other;
// open it with _txlock=immediate and a _busy_timeout longer than your handlers take.
package dedup
