// Package doctest compiles the Go snippets of README.md and docs, so that they can't rot.
package doctest
