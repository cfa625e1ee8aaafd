//go:build linux

package main

import (
	"context"
	"path/filepath"
	"strconv"
)

const (
	debianPrograms  = "/usr/lib/postgresql"
	debianPreferred = "15" // the version of Debian 12
)

// debianPostgres is the PostgreSQL that Debian's packages install.
type debianPostgres struct{}

func (debianPostgres) missing() []string {
	if (debianPostgres{}).version() == "" {
		return []string{"postgresql"}
	}
	return nil
}

func (debianPostgres) fetch(context.Context) error { return nil }

// version returns the preferred one, else the newest, else "".
func (debianPostgres) version() string {
	installed, err := filepath.Glob(filepath.Join(debianPrograms, "*", "bin", "initdb"))
	if err != nil {
		return ""
	}
	newest, version := 0, ""
	for _, path := range installed {
		v := filepath.Base(filepath.Dir(filepath.Dir(path)))
		if v == debianPreferred {
			return v
		}
		if n, err := strconv.Atoi(v); err == nil && n > newest {
			newest, version = n, v
		}
	}
	return version
}

func (d debianPostgres) program(name string) string {
	return filepath.Join(debianPrograms, d.version(), "bin", name)
}
