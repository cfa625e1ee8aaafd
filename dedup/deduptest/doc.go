// Package deduptest delivers messages to a handler under dedup as brokers do on a bad day: twice, at the same time, out of order, and with
// commits that fail.
//
//	commits := deduptest.WatchCommits(t, db)     // before dedup.New
//	d, err := dedup.New(db, dedup.Config{})
//	c := deduptest.NewConsumer(t, deduptest.Config{Deduplicator: d, Handler: handler, PublishTopic: "invoices"})
//
//	c.Twice(msg)                                 // the second one must be a duplicate
//	c.Concurrently(msg, 16)
//	commits.FailNext(deduptest.CommitLost)       // it took effect, and nobody knows
//	c.UntilAcked(msg)
//	// now assert that the effects are there once
//
// The consumer is a handler of a Watermill router in the process, with the middlewares that are given. It links no test library.
package deduptest
