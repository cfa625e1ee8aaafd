package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// figure is one part of the report.
type figure struct {
	name string
	run  func(*bench, context.Context) error
}

// figures are in an order in which those that share the largest backlog find it as they need it: untouched, and then still large.
var figures = []figure{
	{"kafka", (*bench).kafkaDirect},
	{"kafka-2ms", (*bench).kafkaSlow},
	{"drain", (*bench).drains},
	{"held-snapshot", (*bench).heldSnapshot},
	{"kept", (*bench).kept},
	{"behind-held", (*bench).behindHeld},
	{"latency", (*bench).latency},
	{"relays", (*bench).relays},
	{"writers", (*bench).writers},
	{"status", (*bench).status},
	{"backlog", (*bench).backlog},
	{"rss", (*bench).rss},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchrelay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	names := make([]string, len(figures))
	for i, f := range figures {
		names[i] = f.name
	}
	only := flag.String("only", "", "figures to make, separated by commas: "+strings.Join(names, ",")+" (default all)")
	rounds := flag.Int("rounds", 3, "how often the variants of a figure take their turns")
	small := flag.Bool("small", false, "a fiftieth of all sizes, to see whether it works")
	profiles := flag.String("profiles", "", "folder for CPU profiles of this process, one for each turn of the relay in kafka and kafka-2ms")
	child := flag.String("relay-only", "", "used by rss for its child process: publish the outbox at this connection string to nowhere")
	childFor := flag.Duration("for", 30*time.Second, "how long, with -relay-only")
	flag.Parse()
	if *child != "" {
		return relayOnly(ctx, *child, *childFor)
	}

	wanted, err := choose(*only, names)
	if err != nil {
		return err
	}
	if *rounds < 1 || flag.NArg() > 0 {
		return errors.New("give at least one round, and figures by -only")
	}
	b := newBench(*rounds, *small)
	b.profiles = *profiles
	defer b.cleanUp(ctx)
	if err := b.header(ctx); err != nil {
		return err
	}
	for _, f := range figures {
		if !wanted[f.name] {
			continue
		}
		b.figure = f.name
		begin := time.Now()
		if err := f.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		b.log.InfoContext(ctx, "figure is done", slog.String("figure", f.name), slog.Duration("took", time.Since(begin).Round(time.Second)))
	}
	return nil
}

// choose reads -only.
func choose(only string, names []string) (map[string]bool, error) {
	wanted := map[string]bool{}
	list := names
	if only != "" {
		list = strings.Split(only, ",")
	}
	for _, name := range list {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no figure %q, but %s", name, strings.Join(names, ", "))
		}
		wanted[name] = true
	}
	return wanted, nil
}
