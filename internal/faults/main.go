//go:build linux

// Command faults looks for lost, invented and reordered events, and for duplicates without a
// cause, while everything fails that can:
//
//	go run ./internal/faults -db postgres -faults 40 -seed 1 -for 10m
//
// It starts a database and a Kafka of its own on 127.0.0.1 from the programs
// that "make services" has installed, four relays and two processes of writers, as processes of
// their own, each relay behind TCP proxies, and a reader of all partitions. Four more processes, also behind proxies, are consumers under
// dedup: what they handle in the first hop they answer by messages through the outbox, which they handle in the second. Then it kills, stops,
// restarts, cuts off and delays them at random, one or two at a time, and waits after each fault until
// what was pending has been published. All the while some events are poison, some publishes take longer than a lease, and a
// snapshot is held open. In the end everything is healed, and a
// relaytest.Checker compares the writers' logs with what was published, and each hop's effects with what was published for it.
//
// The seed decides what fails and how long; when exactly is up to the machine. The report is
// a Markdown table. The command fails if a promise was broken, and then leaves its folder with all logs.
//
// For processes whose clocks are hours off it builds itself once more, with another time.Now, so it must run where Go can build it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if isRole() {
		os.Exit(runRole())
	}
	o := options{}
	var kinds string
	flag.StringVar(&o.database, "db", "postgres", "database: postgres or mariadb")
	flag.IntVar(&o.faults, "faults", 40, "number of faults")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the faults; 0 means a new one")
	flag.DurationVar(&o.limit, "for", 15*time.Minute, "time after which nothing more fails")
	flag.DurationVar(&o.lease, "lease", 2*time.Second, "lease of the relays")
	flag.IntVar(&o.rate, "rate", 40, "transactions a second, about, of all writers; one has two or three events")
	flag.IntVar(&o.consumers, "consumers", 4, "consumers in a group that handle what is published, in two hops; 0 means none")
	flag.BoolVar(&o.remove, "delete", false, "relays delete what they have published")
	flag.StringVar(&kinds, "kinds", "", "only these kinds of faults, separated by commas")
	flag.BoolVar(&o.keep, "keep", false, "leave the folder with the logs in any case")
	flag.Parse()
	if kinds != "" {
		o.kinds = strings.Split(kinds, ",")
	}
	for o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	o.progress = os.Stderr
	result, err := run(ctx, o)
	if result != nil {
		fmt.Fprintln(os.Stdout, result.markdown())
		err = errors.Join(err, result.err())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		cancel()
		os.Exit(1) //nolint:gocritic // cancel has been called
	}
}
