//go:build linux

package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that a database server runs as. The zero account is
// whoever runs this command.
type account struct {
	credential *syscall.Credential
}

// accountFor returns the account with that name for root, whom the database
// servers refuse, and the zero account for everybody else.
func accountFor(name string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, err
	}
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// makeScratch creates an empty folder in parent that belongs to the account.
// Data is made there and renamed when it is complete. The name is new each
// time, because the programs of an attempt that was killed may still be
// writing; what such attempts left is removed.
func (a account) makeScratch(parent string) (string, error) {
	left, err := filepath.Glob(filepath.Join(parent, "new-*"))
	if err != nil {
		return "", err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			log.Printf("removing what an interrupted start left: %v", err)
		}
	}
	path, err := os.MkdirTemp(parent, "new-*")
	if err != nil || a.credential == nil {
		return path, err
	}
	return path, os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// own makes cmd run as the account in the given folder.
func (a account) own(cmd *exec.Cmd, folder string) *exec.Cmd {
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "HOME="+folder, "LC_ALL=C.UTF-8")
	if a.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	}
	return cmd
}

// runQuiet runs cmd and shows its output only when it fails.
func runQuiet(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
