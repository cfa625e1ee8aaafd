//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
)

const minimumJava = 17

// javaMissing lists the Debian package to install for findJava to find one.
func javaMissing() []string {
	if findJava() == "" {
		return []string{"default-jre-headless"}
	}
	return nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// findJava returns the path of a Java that can run Kafka and Maven, else "".
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
