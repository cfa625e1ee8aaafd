//go:build linux

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// install installs Debian packages. The services that some of them start on
// their own do not matter: ours have their own ports and data.
func install(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	list := strings.Join(packages, " ")

	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing: %s (names of Debian packages; there is no apt-get to install them)", list)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s; install them, or run this command as root", list)
	}

	log.Printf("installing %s", list)
	if err := aptGet(ctx, "update"); err != nil {
		// One source out of reach does not mean that the packages are.
		log.Printf("apt-get update: %v; going on with the old lists", err)
	}
	if err := aptGet(ctx, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...); err != nil {
		return fmt.Errorf("installing %s: %w", list, err)
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	args = append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return runQuiet(cmd)
}
