//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gormoutbox/outbox/relay/relaytest"
)

// journal is the log of a writer process: what it is about to commit, and what became
// of it. Each entry is one write to the file, so that a killed process leaves whole ones.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

// intend notes the events of a transaction.
func (j *journal) intend(transaction string, rows []account) error {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "intended %s %s %d %d\n", transaction, r.Nonce, r.ID, r.Version)
	}
	_, err := j.file.WriteString(b.String())
	return err
}

// ended notes what became of a transaction.
func (j *journal) ended(transaction string, committed bool) error {
	what := "rolledback"
	if committed {
		what = "committed"
	}
	_, err := j.file.WriteString(what + " " + transaction + "\n")
	return err
}

// journalError is a line that no writer wrote.
type journalError struct {
	path string
	line string
}

func (e *journalError) Error() string { return fmt.Sprintf("%s: %q is no entry", e.path, e.line) }

// readJournal tells a checker what writers did, and each event to note.
func readJournal(path string, checker *relaytest.Checker, note func(relaytest.Event)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	open := map[string][]string{} // events of transactions whose end is unknown so far
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 5 && fields[0] == "intended":
			version, err := strconv.ParseInt(fields[4], 10, 64)
			if err != nil {
				return &journalError{path, lines.Text()}
			}
			e := relaytest.Event{ID: fields[2], AggregateType: "account", AggregateID: fields[3], Position: version}
			checker.Intended(e)
			note(e)
			open[fields[1]] = append(open[fields[1]], e.ID)
		case len(fields) == 2 && fields[0] == "committed":
			checker.Committed(open[fields[1]]...)
			delete(open, fields[1])
		case len(fields) == 2 && fields[0] == "rolledback":
			checker.RolledBack(open[fields[1]]...)
			delete(open, fields[1])
		default:
			return &journalError{path, lines.Text()}
		}
	}
	return errors.Join(lines.Err(), f.Close())
}
