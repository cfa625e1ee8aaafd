//go:build linux

package main

import "fmt"

// missingError says that a program is not installed.
type missingError struct{ what string }

func (e *missingError) Error() string {
	return e.what + ` is not installed; "make services" does that`
}

// stalledError says that events stayed pending though nothing was failing any more.
type stalledError struct {
	after   string
	pending int64
}

func (e *stalledError) Error() string {
	return fmt.Sprintf("after %s %d events stay pending", e.after, e.pending)
}

// lagError says that consumers did not come to the end of what was published.
type lagError struct{ cause error }

func (e *lagError) Error() string { return "consumers do not catch up: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *lagError) Unwrap() error { return e.cause }

// exitError says that a process that was asked to end did not do so in good order.
type exitError struct {
	name  string
	cause string
}

func (e *exitError) Error() string { return e.name + ": " + e.cause }

// kindError names a fault that does not exist.
type kindError struct{ kind string }

func (e *kindError) Error() string { return fmt.Sprintf("no kind of fault is called %q", e.kind) }
