// Package env reads settings from environment variables.
package env

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// What "make services" starts, so that the example runs without any setting.
const (
	Postgres = "postgres://postgres@127.0.0.1:25432/outbox_test?sslmode=disable"
	Kafka    = "127.0.0.1:29092"
)

// Error is a variable whose value can't be used.
type Error struct {
	Name, Value, Want string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s=%q: want %s", e.Name, e.Value, e.Want) }

// Vars reads variables and collects what is wrong with them.
type Vars struct{ errs []error }

// String returns the variable, or fallback if it is not set or empty.
func (v *Vars) String(name, fallback string) string {
	return cmp.Or(os.Getenv(name), fallback)
}

// List returns a list separated by commas.
func (v *Vars) List(name, fallback string) []string {
	value := v.String(name, fallback)
	var list []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	if len(list) == 0 {
		v.errs = append(v.errs, &Error{name, value, "a list separated by commas"})
	}
	return list
}

// Duration returns a duration such as 10s.
func (v *Vars) Duration(name string, fallback time.Duration) time.Duration {
	value := v.String(name, fallback.String())
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		v.errs = append(v.errs, &Error{name, value, "a positive duration such as 10s"})
	}
	return d
}

// Err returns everything that was wrong, or nil.
func (v *Vars) Err() error { return errors.Join(v.errs...) }
