// Package testenv gives tests databases and Kafka topics of their own on real
// servers.
//
// The servers are those that OUTBOX_TEST_POSTGRES, OUTBOX_TEST_POSTGRES18,
// OUTBOX_TEST_MYSQL and OUTBOX_TEST_KAFKA name, else those that
// "make services" starts (or "docker compose -f internal/testenv/compose.yaml
// up -d --wait"). Without a server a test is skipped, but in CI, where the
// variable CI is set, it fails. A server that a variable names must answer in
// any case.
//
// Every database is created fresh and empty for the test that asks for it and
// dropped at the test's end, so tests may run in parallel. They share the
// servers, though: transaction ids, and with them snapshots, belong to the
// whole PostgreSQL server, and LISTEN channels to the PostgreSQL database
// that holds all the schemas.
//
// SQL Server is not among them: tests of its SQL talk to a Recorder, which
// notes the statements and answers as the test says.
package testenv
