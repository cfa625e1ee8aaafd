//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
)

const (
	kafkaVersion = "4.1.1"
	minimumJava  = 17
	downloads    = 3 // attempts
)

// kafkaPOM names the broker; Maven brings what it depends on. slf4j-simple
// makes it log to its standard error.
const kafkaPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>` + kafkaVersion + `</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
`

const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// download gets the broker's jars, unless they are there.
func (k *kafka) download(ctx context.Context) error {
	if exists(k.libs()) {
		return nil
	}
	log.Printf("downloading Kafka %s", kafkaVersion)
	pom := filepath.Join(k.home, "pom.xml")
	if err := os.WriteFile(pom, []byte(kafkaPOM), 0o644); err != nil {
		return err
	}

	var err error
	for range downloads {
		fresh, scratchErr := account{}.makeScratch(k.home)
		if scratchErr != nil {
			return scratchErr
		}
		mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, copyDependencies, "-DoutputDirectory="+fresh)
		// Maven must not run on an older Java that stands first in PATH.
		mvn.Env = append(os.Environ(), "JAVA_HOME="+filepath.Dir(filepath.Dir(findJava())))
		if err = runQuiet(mvn); err == nil {
			return os.Rename(fresh, k.libs())
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("downloading Kafka: %w", err)
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// findJava returns the path of a Java that can run Kafka, else "".
func findJava() string {
	// Once found it stays; before it may still be installed.
	javaOnce.Lock()
	defer javaOnce.Unlock()
	if javaPath != "" {
		return javaPath
	}

	var candidates []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		candidates = append(candidates, path)
	}
	installed, _ := filepath.Glob("/usr/lib/jvm/*/bin/java") // the pattern is correct
	for _, candidate := range append(candidates, installed...) {
		output, err := exec.Command(candidate, "-version").CombinedOutput()
		if err != nil {
			continue
		}
		match := javaVersion.FindSubmatch(output)
		if match == nil {
			continue
		}
		if major, err := strconv.Atoi(string(match[1])); err == nil && major >= minimumJava {
			if resolved, err := filepath.EvalSymlinks(candidate); err == nil {
				candidate = resolved
			}
			javaPath = candidate
			return javaPath
		}
	}
	return ""
}

var (
	javaOnce sync.Mutex
	javaPath string
)
