// Command pathtable writes the table of all ways to write, from the cases of
// the conformance suite, between the two marks in docs/capture.md. With -check it changes nothing and fails if the
// table is another.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/gormoutbox/outbox/gormoutbox/capturetest"
)

//go:generate go run . ../../docs/capture.md

const (
	begin = "<!-- paths: made by go generate ./internal/pathtable; do not edit -->\n"
	end   = "<!-- end of paths -->\n"
)

func main() {
	check := flag.Bool("check", false, "fail if the file is not up to date")
	flag.Parse()
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "pathtable:", err)
		os.Exit(1)
	}
}

func run(file string, check bool) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replace(string(old), table(capturetest.Cases()))
	if err != nil || text == string(old) {
		return err
	}
	if check {
		return errors.New(file + " is not up to date: run go generate ./internal/pathtable")
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// replace puts the table between the marks.
func replace(text, table string) (string, error) {
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", errors.New("the marks of the table are missing")
	}
	return head + begin + table + end + tail, nil
}

// topics are the groups of cases by the first letter of their ids.
var topics = []struct{ letters, title string }{
	{"C", "Create"},
	{"U", "Upserts"},
	{"SF", "Save and FirstOr…"},
	{"M", "Updates"},
	{"A", "Associations"},
	{"D", "Deletes"},
	{"R", "Raw SQL"},
}

func table(cases []capturetest.Case) string {
	var b strings.Builder
	for _, topic := range topics {
		fmt.Fprintf(&b, "\n### %s\n\n| id | write | outcome |\n| --- | --- | --- |\n", topic.title)
		for _, c := range cases {
			if strings.Contains(topic.letters, c.ID[:1]) {
				fmt.Fprintf(&b, "| %s | %s: `%s` | %s |\n", c.ID, cell(c.Name), code(c.Code), cell(outcomes(c.Expect)))
			}
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// outcomes says what comes of a case, the usual outcome first.
func outcomes(all capturetest.Expectations) string {
	last := len(all) - 1
	parts := []string{outcome(all[last])}
	for _, e := range all[:last] {
		on := make([]string, len(e.On))
		for i, v := range e.On {
			on[i] = names[v]
		}
		parts = append(parts, strings.Join(on, ", ")+": "+outcome(e))
	}
	return strings.Join(parts, "<br>")
}

var names = map[capturetest.Variant]string{
	capturetest.Postgres: "PostgreSQL", capturetest.SQLite: "SQLite", capturetest.MariaDB: "MariaDB", capturetest.MySQL: "MySQL",
	capturetest.FoundRows: "with clientFoundRows", capturetest.FoldsCase: "where texts fold case",
	capturetest.Increment: "with auto_increment_increment",
}

func outcome(e capturetest.Expectation) string {
	var text string
	switch {
	case e.Result == capturetest.Refused:
		text = "**refused**"
	case e.Result == capturetest.Misconfigured:
		text = "**refused** as a mistake of the annotation"
	case e.Result == capturetest.Fails:
		text = "fails as without the plugin"
	case len(e.Events) == 0 && e.Unseen:
		text = "**not seen**"
	case len(e.Events) == 0:
		text = "no event"
	default:
		text = events(e.Events)
	}
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return text
}

// events lists event types, equal neighbours once.
func events(all []capturetest.Event) string {
	var parts []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n].Type == all[i].Type {
			n++
		}
		part := "`" + all[i].Type + "`"
		if n > 1 {
			part = fmt.Sprintf("%d × %s", n, part)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// code is safe between backticks in a table.
func code(s string) string { return strings.NewReplacer("|", `\|`, "`", "'").Replace(s) }
