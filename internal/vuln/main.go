// Vuln looks for known vulnerabilities in what the module calls, with govulncheck
// and the vulnerability database that the module golang.org/x/vulndb carries, so
// that the Go module proxy is all that it needs.
//
//	go run ./internal/vuln GOVULNCHECK
//
// A vulnerability in a dependency fails. One in the standard library is printed:
// it is mended by the Go release that a program is built with, which is the user's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vuln GOVULNCHECK")
		os.Exit(2)
	}
	ok, err := run(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, govulncheck string) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "vulndb")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	version, err := buildDatabase(ctx, dir)
	if err != nil {
		return false, fmt.Errorf("building the database: %w", err)
	}
	found, err := check(ctx, govulncheck, dir)
	if err != nil {
		return false, fmt.Errorf("running govulncheck: %w", err)
	}
	failed := 0
	for _, f := range found {
		fmt.Printf("%s  %s %s, fixed in %s: %s\n", f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.FixedVersion, f.where())
		if f.Trace[0].Module != "stdlib" {
			failed++
		}
	}
	fmt.Printf("vuln: %d known vulnerabilities are called, %d of them in dependencies; golang.org/x/vulndb %s\n", len(found), failed, version)
	return failed == 0, nil
}

// finding is govulncheck's. The first frame of the trace is the vulnerable symbol.
type finding struct {
	OSV          string `json:"osv"`
	FixedVersion string `json:"fixed_version"`
	Trace        []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Package  string `json:"package"`
		Function string `json:"function"`
	} `json:"trace"`
}

func (f finding) where() string {
	last := f.Trace[len(f.Trace)-1]
	return fmt.Sprintf("%s.%s through %s.%s", f.Trace[0].Package, f.Trace[0].Function, last.Package, last.Function)
}

// check returns one finding for each vulnerability whose code is called.
func check(ctx context.Context, govulncheck, db string) ([]finding, error) {
	cmd := exec.CommandContext(ctx, govulncheck, "-db", "file://"+filepath.ToSlash(db), "-format", "json", "-test", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var found []finding
	seen := map[string]bool{}
	for dec := json.NewDecoder(out); ; {
		var m struct {
			Finding *finding `json:"finding"`
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, errors.Join(err, cmd.Wait())
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" && !seen[f.OSV+f.Trace[0].Module] {
			seen[f.OSV+f.Trace[0].Module] = true
			found = append(found, *f)
		}
	}
	return found, cmd.Wait()
}
