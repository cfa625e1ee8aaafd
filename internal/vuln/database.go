package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is the part of an OSV record that the index needs.
type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Aliases  []string  `json:"aliases"`
	Affected []struct {
		Module struct {
			Path string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
}

// moduleIndex is a line of index/modules.json.
type moduleIndex struct {
	Path  string        `json:"path"`
	Vulns []moduleVulns `json:"vulns"`
}

type moduleVulns struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Fixed    string    `json:"fixed,omitempty"`
}

// buildDatabase writes the newest database into dir, in the form that
// https://go.dev/doc/security/vuln/database describes, and returns its version.
func buildDatabase(ctx context.Context, dir string) (version string, err error) {
	source, version, err := download(ctx)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(source, "data", "osv", "*.json"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no records in %s", source)
	}
	for _, sub := range []string{"ID", "index"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	modules := map[string][]moduleVulns{}
	vulns := make([]entry, 0, len(files))
	for _, file := range files {
		e, err := copyRecord(file, dir)
		if err != nil {
			return "", err
		}
		for _, a := range e.Affected {
			v := moduleVulns{ID: e.ID, Modified: e.Modified}
			for _, r := range a.Ranges {
				for _, event := range r.Events {
					if event.Fixed != "" {
						v.Fixed = event.Fixed
					}
				}
			}
			modules[a.Module.Path] = append(modules[a.Module.Path], v)
		}
		e.Affected = nil
		vulns = append(vulns, e)
	}
	index := make([]moduleIndex, 0, len(modules))
	for path, v := range modules {
		index = append(index, moduleIndex{path, v})
	}
	slices.SortFunc(index, func(a, b moduleIndex) int { return strings.Compare(a.Path, b.Path) })
	for name, value := range map[string]any{"db": map[string]time.Time{"modified": time.Now().UTC()}, "modules": index, "vulns": vulns} {
		if err := writeJSON(filepath.Join(dir, "index", name+".json"), value); err != nil {
			return "", err
		}
	}
	return version, nil
}

// copyRecord copies a record into the database and reads it.
func copyRecord(file, dir string) (e entry, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return e, os.WriteFile(filepath.Join(dir, "ID", filepath.Base(file)), text, 0o600)
}

func writeJSON(file string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// download brings golang.org/x/vulndb into the module cache. It needs a module of
// its own, so that ours does not come to require it.
func download(ctx context.Context) (dir, version string, err error) {
	home, err := os.MkdirTemp("", "vulndb-module")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(home) }()
	if err := os.WriteFile(filepath.Join(home, "go.mod"), []byte("module vulndb\n\ngo 1.26.0\n"), 0o600); err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "golang.org/x/vulndb@latest")
	cmd.Dir, cmd.Stderr = home, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("go mod download golang.org/x/vulndb: %w", err)
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", "", err
	}
	return module.Dir, module.Version, nil
}
