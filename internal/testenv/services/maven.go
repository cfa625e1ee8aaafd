//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

const (
	downloads        = 3 // attempts
	copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
)

// artifact is what Maven knows by these three names.
type artifact struct{ group, id, version string }

func (a artifact) String() string { return a.id + " " + a.version }

// mavenMissing lists the Debian packages that mavenCopy needs.
func mavenMissing() []string {
	packages := javaMissing()
	if _, err := exec.LookPath("mvn"); err != nil {
		packages = append(packages, "maven")
	}
	return packages
}

// mavenOnce lets servers that start at the same time download one after the
// other: Maven's local repository is not made for two writers.
var mavenOnce sync.Mutex

// mavenCopy puts the jars of the artifacts, and of what they depend on, into
// the folder to, which appears when it is complete. It works in home.
func mavenCopy(ctx context.Context, home, to string, artifacts ...artifact) error {
	mavenOnce.Lock()
	defer mavenOnce.Unlock()

	log.Printf("downloading %s", artifacts[0])
	pom := filepath.Join(home, "pom.xml")
	if err := os.WriteFile(pom, []byte(mavenPOM(artifacts)), 0o644); err != nil {
		return err
	}
	var err error
	for range downloads {
		fresh, scratchErr := account{}.makeScratch(home)
		if scratchErr != nil {
			return scratchErr
		}
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, copyDependencies, "-DoutputDirectory="+fresh)
		// Maven must not run on an older Java that stands first in PATH.
		mvn.Env = append(os.Environ(), "JAVA_HOME="+filepath.Dir(filepath.Dir(findJava())))
		if err = runQuiet(mvn); err == nil {
			return os.Rename(fresh, to)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("downloading %s: %w", artifacts[0], err)
}

// mavenPOM is a project that consists of its dependencies.
func mavenPOM(artifacts []artifact) string {
	var pom strings.Builder
	pom.WriteString(`<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId>
  <artifactId>test</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
`)
	for _, a := range artifacts {
		fmt.Fprintf(&pom, `    <dependency>
      <groupId>%s</groupId>
      <artifactId>%s</artifactId>
      <version>%s</version>
    </dependency>
`, a.group, a.id, a.version)
	}
	pom.WriteString("  </dependencies>\n</project>\n")
	return pom.String()
}
