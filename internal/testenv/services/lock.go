//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock creates the folder and keeps other start and stop commands out of it
// until unlock, or until this process ends, however it ends.
func (e *environment) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, err
	}
	info, err := os.Stat(e.dir)
	if err != nil {
		return nil, err
	}
	// In a shared folder for temporary files anybody can take our name.
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to another user: set OUTBOX_SERVICES_DIR", e.dir)
	}
	// The database servers run as users of their own and must get through,
	// whatever the umask is.
	if err := os.Chmod(e.dir, 0o755); err != nil {
		return nil, err
	}

	// The servers do not inherit the file: Go opens it close-on-exec.
	f, err := os.OpenFile(filepath.Join(e.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if attempt == 0 {
			log.Print("waiting for another start or stop to finish")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
