package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gormoutbox/outbox/internal/lifecycle"
)

// RouterPlugin ties the relay to a Watermill router: it starts with the router's
// Run and is drained before that returns, however the router is stopped. Use it
// as router.AddPlugin(r.RouterPlugin). The relay shows as a consumer handler
// named "gormoutbox_relay_<ID>", which never gets a message. The router's Run returns an
// error if the tables are not what the relay needs; a relay whose Run ends with an error later ends that handler.
//
// The router's CloseTimeout must be longer than Config.ShutdownTimeout.
func (r *Relay) RouterPlugin(router *message.Router) error {
	if router == nil {
		return &ConfigError{"router", "it is nil", "pass a Watermill router"}
	}
	// Not in Subscribe, whose error leaves goroutines of the router behind. A database that is away does
	// not keep the router from starting; Run waits for it.
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := r.mismatch(ctx); err != nil {
		return err
	}
	run := lifecycle.New(func(ctx context.Context) {
		if err := r.Run(ctx); err != nil {
			r.log(ctx, slog.LevelError, "relay ended", err)
		}
	})
	router.AddConsumerHandler("gormoutbox_relay_"+r.config.ID, r.config.Table, run, func(*message.Message) error { return nil })
	return nil
}

// checkTimeout bounds the look at the tables before a router starts, since a plugin gets no context.
const checkTimeout = 10 * time.Second
