package testenv

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A server must answer, and a schema be created or dropped, within this time.
const timeout = 30 * time.Second

// server is a server that tests connect to.
type server struct {
	name     string
	variable string
	fallback string // address when the variable is not set
	probe    func(ctx context.Context, address string) error

	once     sync.Once
	probeErr error
}

// require returns the address of the server, or ends the test.
func (s *server) require(t testing.TB) string {
	t.Helper()

	address, set := s.fallback, false
	if v := os.Getenv(s.variable); v != "" {
		address, set = v, true
	}
	// All tests of a process share the answer.
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		s.probeErr = s.probe(ctx, address)
	})

	switch judge(set, os.Getenv("CI") != "", s.probeErr) {
	case skip:
		t.Skipf("%s is not there; run \"make services\", or set %s (%v)", s.name, s.variable, s.probeErr)
	case fail:
		t.Fatalf("%s does not answer; run \"make services\", or correct %s: %v", s.name, s.variable, s.probeErr)
	case use:
	}
	return address
}

type verdict int

const (
	use verdict = iota
	skip
	fail
)

// judge decides what a test does about a server. Set tells whether its
// variable is set, ci whether this is a CI run, err how the server answered.
func judge(set, ci bool, err error) verdict {
	switch {
	case err == nil:
		return use
	case set || ci:
		return fail
	default:
		return skip
	}
}

// uniqueName returns a name that no other test has, good for a schema, a
// database and a file.
func uniqueName() string {
	id := uuid.New()
	const hex = "0123456789abcdef"
	name := []byte("outbox_")
	for _, b := range id[:12] {
		name = append(name, hex[b>>4], hex[b&15])
	}
	return string(name)
}
