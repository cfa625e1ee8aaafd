package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// sagas are the messages that each saga must consist of, and nothing else.
var sagas = []struct {
	correlation string
	names       []string
}{
	{"checkout-1", []string{"order.placed", "stock.reserved", "payment.charged", "order.confirmed"}},
	{"checkout-2", []string{"order.placed", "stock.reserved", "payment.declined", "order.cancelled"}},
}

// reportMessages prints the messages of each saga. Each must have been published once and have been caused by the one before.
func reportMessages(out io.Writer, b *broker) error {
	for _, want := range sagas {
		fmt.Fprintf(out, "correlation id %s\n", want.correlation)
		var names []string
		cause := ""
		for _, s := range b.saga(want.correlation) {
			name := s.msg.Metadata.Get(gormoutbox.HeaderName)
			fmt.Fprintf(out, "  %-9s  %s\n", s.service, name)
			if got := s.msg.Metadata.Get(gormoutbox.HeaderCausationID); got != cause {
				return fmt.Errorf("%s was caused by %q, not by the message before it", name, got)
			}
			names = append(names, name)
			cause = s.msg.UUID
		}
		if !slices.Equal(names, want.names) {
			return fmt.Errorf("the saga must be %q", want.names)
		}
	}
	return nil
}

// reportStates prints what the services have in the end, and returns an error if it is not what it must be.
func reportStates(ctx context.Context, out io.Writer, o *orders, w *warehouse) error {
	for _, state := range []struct {
		name  string
		query *gorm.DB
		want  []string
	}{
		{"orders", o.db.Model(&Order{}).Select("customer || ' ' || status").Order("id"), []string{"ada confirmed", "bob cancelled"}},
		{"stock", w.db.Model(&Reservation{}).Select("quantity || ' ' || item || ' ' || status").Order("order_id"), []string{"2 tea shipped", "3 tea released"}},
		{"free", w.db.Model(&Item{}).Select("free || ' ' || name"), []string{"8 tea"}},
		{"money", w.db.Model(&Account{}).Select("customer || ' ' || balance").Order("customer"), []string{"ada 40", "bob 50"}},
	} {
		var got []string
		if err := state.query.WithContext(ctx).Scan(&got).Error; err != nil {
			return err
		}
		fmt.Fprintf(out, "%-7s %q\n", state.name, got)
		if !slices.Equal(got, state.want) {
			return fmt.Errorf("%s: it must be %q", state.name, state.want)
		}
	}
	failures := w.bank.failures.Load()
	fmt.Fprintf(out, "the bank failed %d time, after it had taken the money\n", failures)
	if failures != 1 {
		return fmt.Errorf("the bank must fail once, or nothing was shown")
	}
	return nil
}
