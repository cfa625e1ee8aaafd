//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// roleVariable makes this program one of the processes under test.
const roleVariable = "OUTBOX_FAULTS_ROLE"

// role is what such a process is told.
type role struct {
	Kind     string // "relay", "consumer" or "writer"
	Name     string
	Database string
	DSN      string
	Seed     uint64

	// Of relays and consumers.
	Kafka string // address of the proxy through which the broker is reached, whatever address it gives
	Lease time.Duration
	Notes string        // file that counts what happened by the way
	Clock time.Duration // by how much the clock is wrong
	// Program is run with a wrong clock.
	Program string `json:"-"`

	// Of relays.
	Batch  bool // publishes whole batches
	Remove bool

	// Of writers.
	Log     string
	Writers int
	Rate    int // transactions a second
}

func isRole() bool { return os.Getenv(roleVariable) != "" }

// command runs this program in the role, or the other one if the clock is wrong.
func (r role) command() (*exec.Cmd, error) {
	program := r.Program
	if r.Clock == 0 {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program) //nolint:noctx // it is ended by signals
	cmd.Env = append(append(os.Environ(), roleVariable+"="+string(text)), r.environment()...)
	return cmd, nil
}

// runRole returns the exit code. SIGTERM is the request to end in good order.
func runRole() int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var r role
	err := json.Unmarshal([]byte(os.Getenv(roleVariable)), &r)
	if err == nil {
		switch r.Kind {
		case "relay":
			err = r.relay(ctx)
		case "consumer":
			err = r.consume(ctx)
		case "writer":
			err = r.write(ctx)
		default:
			err = fmt.Errorf("there is no role %q", r.Kind)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, r.Name+":", err)
		return 1
	}
	return 0
}

// account is an aggregate. Its version is raised under the lock of its row, so that the
// database's order is the versions' order; the nonce is the id by which an event is told from others.
type account struct {
	_ gormoutbox.Emit `outbox:"aggregate=account,on=updated"`

	ID      int    `gorm:"primaryKey;autoIncrement:false" json:"id"`
	Version int64  `json:"version"`
	Nonce   string `gorm:"size:36" json:"nonce"`
}

const accounts = 200

// open connects, again and again until ctx ends, since the database may be away.
func open(ctx context.Context, d database, dsn string, connections int) (*gorm.DB, error) {
	var g *gorm.DB
	err := until(ctx, 100*time.Millisecond, func() (err error) {
		g, err = gorm.Open(d.dialector(dsn), &gorm.Config{Logger: logger.Discard})
		return err
	})
	if err != nil {
		return nil, err
	}
	pool, err := g.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return g, g.Use(gormoutbox.New(gormoutbox.Config{Topic: func(gormoutbox.TopicParams) string { return topic }}))
}

func closePool(g *gorm.DB) {
	if pool, err := g.DB(); err == nil {
		pool.Close()
	}
}
