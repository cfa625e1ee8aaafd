// Package brokers holds tests of the whole chain, from a save through GORM to the effect of a consumer's handler, on real servers of RabbitMQ,
// NATS JetStream and Redis streams. Each test starts a server of its own, kills it with SIGKILL in the middle of everything and starts it again.
//
// It is a module of its own, so that the clients of these brokers stay out of the go.mod of this project. "make brokers" installs the
// servers and runs it.
//
// # What a consumer must set
//
// All three keep the events of an aggregate in order if they are in one topic (gormoutbox.TopicByAggregate) and one consumer takes one message at a time, acks it, and only then
// gets the next one. What that is called, and what breaks it, stands at each test's configuration.
//
// # The race detector
//
// watermill-amqp v3.0.2 changes fields of its connection when it is lost, while publishers and subscribers read them. "make brokers" compiles this one
// package without the race detector (-gcflags=…=-race=false), so that everything else is tested with it.
package brokers
