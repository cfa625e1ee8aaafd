package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/relay"
)

const rssTime = 30 * time.Second

// memory is what a child process reports of itself.
type memory struct {
	PeakMiB   float64 `json:"peak_mib"`
	NowMiB    float64 `json:"now_mib"`
	Published int64   `json:"published"`
}

// rss runs nothing but a relay in a process of its own, on a large backlog and on the ordinary one.
func (b *bench) rss(ctx context.Context) error {
	measure := func(ctx context.Context, d *database) (sample, error) {
		m, err := child(ctx, d, b.span(rssTime))
		if err != nil {
			return nil, err
		}
		return sample{"peak": m.PeakMiB, "at the end": m.NowMiB, published: float64(m.Published)}, nil
	}
	m, err := b.turns(ctx,
		variant{name: "ordinary", run: func(ctx context.Context) (sample, error) {
			d, err := b.outbox(ctx, b.postgres, b.ordinaryBacklog())
			if err != nil {
				return nil, err
			}
			s, err := measure(ctx, d)
			if err != nil {
				return nil, err
			}
			return s, bounded(ctx, d.drop)
		}},
		variant{name: "large", run: func(ctx context.Context) (sample, error) {
			d, err := b.large(ctx)
			if err != nil {
				return nil, err
			}
			s, err := measure(ctx, d)
			b.bigLeft -= int(s[published])
			return s, err
		}},
	)
	if err != nil {
		return err
	}
	what := number(float64(b.size(largeBacklog))) + " pending"
	b.row(what, "peak, MiB", m.of("large", "peak"))
	b.row(what, "at the end, MiB", m.of("large", "at the end"))
	b.row(what, "published meanwhile", m.of("large", published))
	b.row(what, fmt.Sprintf("peak : with %s pending", number(float64(b.size(backlogEvents)))), m.ratios("large", "ordinary", "peak"))
	return b.forget(ctx)
}

// child runs this program again with -relay-only.
func child(ctx context.Context, d *database, span time.Duration) (m memory, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "-relay-only", d.dsn, "-for", span.String())
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = span
	out, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("running a relay alone: %w", err)
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("reading what it says: %w", err)
	}
	return m, nil
}

// relayOnly is that child.
func relayOnly(ctx context.Context, dsn string, span time.Duration) error {
	inner, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	d := &database{server: postgres{}, dsn: dsn}
	pub := &nowhere{}
	err := d.use(func(db *gorm.DB) error {
		r, err := relay.New(db, pub, relay.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			return err
		}
		return r.Run(inner)
	})
	if err != nil {
		return err
	}
	m := memory{Published: pub.n.Load()}
	if m.NowMiB, err = fromProc("VmRSS:"); err != nil {
		return err
	}
	if m.PeakMiB, err = fromProc("VmHWM:"); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// fromProc is a line of Linux's status of this process, in MiB.
func fromProc(name string) (float64, error) {
	all, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("asking Linux for the memory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(all))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == name {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("there is no %s in the status of this process", name)
}
