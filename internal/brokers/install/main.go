//go:build linux

// Command install installs what the tests of this module need, Debian's packages of RabbitMQ, NATS and Redis, unless it is there. It starts nothing.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"strings"
)

// programs are those that the tests run, by their packages.
var programs = map[string]string{
	"rabbitmq-server": "/usr/lib/rabbitmq/bin/rabbitmq-server",
	"nats-server":     "/usr/sbin/nats-server",
	"redis-server":    "/usr/bin/redis-server",
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("install: ")
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var missing []string
	for name, program := range programs {
		if _, err := os.Stat(program); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing: %s (Debian packages); install them, or run this command as root on Debian", list)
	}
	log.Printf("installing %s", list)
	if err := aptGet("update"); err != nil {
		log.Printf("%v; going on with the old lists", err)
	}
	return withoutServices(func() error {
		return aptGet(append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	})
}

// policy is where Debian's packages ask whether they may start their services.
const policy = "/usr/sbin/policy-rc.d"

// withoutServices runs fn while packages may not start services, which would stay on their well-known ports.
func withoutServices(fn func() error) error {
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return fn() // the machine's owner has decided
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = fn()
	}
	return errors.Join(err, os.Remove(policy))
}

func aptGet(args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}
