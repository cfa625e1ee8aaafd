// Package pgwake wakes the relays of other processes through PostgreSQL's LISTEN and
// NOTIFY, so that they need not wait for their next poll.
//
// Where events are written, a Notifier runs beside the plugin:
//
//	notifier, err := pgwake.NewNotifier(plugin, pgwake.Config{ConnString: url})
//	err = notifier.Run(ctx)
//
// Where a relay runs, a Listener runs beside it:
//
//	listener, err := pgwake.NewListener(pgwake.Config{ConnString: url})
//	r, err := relay.New(db, publisher, relay.Config{Wake: listener.Subscribe()})
//	err = listener.Run(ctx)
//
// A notification is a hint and never carries an event. Polling remains the truth: whatever
// fails here costs latency, up to relay.Config.MaxPoll, and nothing else. A process
// that both writes and relays has the plugin's own signals and needs this package
// only for what other processes write.
//
// # Connections
//
// A Listener and a Notifier have one connection each, outside of GORM's pool. NOTIFY in
// the transaction of a writer makes all such commits wait for each other; therefore
// a Notifier sends after the commit, many commits together, and the writers neither
// wait for it nor notice whether it works.
//
// A Listener needs a connection that stays its own. Through a pooler in
// transaction or statement mode (PgBouncer) the server accepts LISTEN and no
// notification ever arrives. A Listener finds that out by a notification to itself, sent
// on a second, short connection; it reports ErrDeaf, the relays poll, and the test is repeated at
// intervals. Give the Listener an address that leads past the pooler. A Notifier works through any pooler.
//
// # Transactions whose commit is not seen
//
// For events written in a transaction that was not begun by gormoutbox.Transaction,
// GORM itself or a plugin with WatchCommits, the plugin can't tell when they are committed.
// A Notifier then sends again and again for a second after the last such write: first
// after 5 ms, then with pauses that double up to 50 ms. Events of a transaction that
// takes longer are found by the poll.
package pgwake
