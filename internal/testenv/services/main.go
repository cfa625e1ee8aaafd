//go:build linux

// Command services runs the servers that the tests need, two releases of
// PostgreSQL, MariaDB and Kafka, without containers, systemd or configuration:
//
//	eval "$(go run ./internal/testenv/services start)"
//	go test ./...
//	go run ./internal/testenv/services stop
//
// The servers are private to the tests: own ports on 127.0.0.1, own data
// folders below $OUTBOX_SERVICES_DIR (by default gormoutbox-services in the
// folder for temporary files). As root on Debian, start installs what is
// missing; otherwise it says what to install. Servers outlive the command,
// and start uses what already runs.
//
// A server whose variable (OUTBOX_TEST_POSTGRES, OUTBOX_TEST_POSTGRES18,
// OUTBOX_TEST_MYSQL, OUTBOX_TEST_KAFKA) is set to another address is left
// alone, and the value is passed through.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: services start|stop|env|status

start   installs what is missing, starts the servers, prints their addresses
        as export commands for the shell
stop    ends the servers that start started; their data stays
env     prints the export commands only
status  tells what runs; exits with 1 when a server does not answer
`

func main() {
	log.SetFlags(0)
	log.SetPrefix("services: ")

	if len(os.Args) != 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, command string) error {
	env, err := newEnvironment()
	if err != nil {
		return err
	}

	switch command {
	case "start":
		if err := env.start(ctx); err != nil {
			return err
		}
		return env.printExports(os.Stdout)
	case "stop":
		return env.stop(ctx)
	case "env":
		return env.printExports(os.Stdout)
	case "status":
		return env.printStatus(ctx, os.Stdout)
	default:
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("unknown command %q", command)
	}
}
