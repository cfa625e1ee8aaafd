package pgwake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Status tells how a Listener or a Notifier fares.
type Status struct {
	// Connected is whether it has a connection, as far as it knows: one that died in silence is noticed after Config.PingInterval
	// and Config.Timeout.
	Connected bool
	// Healthy is whether it works: a Listener has got its notification to itself on this connection, the last notification of a
	// Notifier was sent. Without that, relays find events by polling.
	Healthy bool
	// Err is what went wrong last, nil while it is healthy. For a Listener that does not hear it is ErrDeaf.
	Err error
}

// tracker keeps the status and reports its changes. It is safe for concurrent use.
type tracker struct {
	logger  *slog.Logger
	onError func(error)
	channel string

	mu     sync.Mutex
	status Status
}

func (t *tracker) get() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// connected keeps the last error: a connection alone does not mean that it is cured.
func (t *tracker) connected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Connected = true
}

func (t *tracker) stopped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Connected, t.status.Healthy = false, false
}

func (t *tracker) healthy(ctx context.Context) {
	t.mu.Lock()
	before := t.status
	t.status = Status{Connected: true, Healthy: true}
	t.mu.Unlock()
	if before.Err != nil {
		t.logger.LogAttrs(ctx, slog.LevelInfo, "wake-up notifications work again", slog.String("channel", t.channel))
	}
}

// failed logs the first of equal errors in a row.
func (t *tracker) failed(ctx context.Context, err error, connected bool) {
	t.mu.Lock()
	before := t.status.Err
	t.status = Status{Connected: connected, Err: err}
	t.mu.Unlock()
	level := slog.LevelWarn
	if before != nil && errors.Is(before, ErrDeaf) == errors.Is(err, ErrDeaf) {
		level = slog.LevelDebug
	}
	t.logger.LogAttrs(ctx, level, "wake-up notifications do not work; relays poll and it tries again",
		slog.String("channel", t.channel), slog.Any("error", err))
	if t.onError != nil {
		t.onError(err)
	}
}
