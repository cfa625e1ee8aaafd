package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// bytesPerEvent is what an event takes on disk at most, with its indexes, a page half free and its part of the log.
const bytesPerEvent = 1500

// room refuses to begin with what the disk can't hold. A server on another machine has to be believed.
func (b *bench) room(ctx context.Context, events int) error {
	var folder string
	err := b.postgres.with(ctx, func(pool *sql.DB) error {
		return pool.QueryRowContext(ctx, "SELECT current_setting('data_directory')").Scan(&folder)
	})
	if err != nil {
		return fmt.Errorf("asking PostgreSQL for its folder: %w", err)
	}
	var disk syscall.Statfs_t
	err = syscall.Statfs(folder, &disk)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the disk: %w", err)
	}
	free := disk.Bavail * uint64(disk.Bsize)     //nolint:gosec // a block has a size
	need := uint64(events)*bytesPerEvent + 1<<30 //nolint:gosec // not below zero
	if free < need {
		return fmt.Errorf("the disk below %s has %d GB left and %d events may take %d", folder, free>>30, events, need>>30)
	}
	return nil
}
