package testenv

import (
	"context"
	"testing"
)

// create runs fn, which creates name on a server, or ends the test.
func create(t testing.TB, name string, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := fn(ctx); err != nil {
		t.Fatalf("creating %s: %v", name, err)
	}
}

// drop runs fn, which drops name, at the end of the test, after the pools
// that the test opens on it are closed. A transaction that the test left open
// makes it fail.
func drop(t testing.TB, name string, fn func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
		defer cancel()
		if err := fn(ctx); err != nil {
			t.Errorf("dropping %s: %v", name, err)
		}
	})
}
