package main

import (
	"context"
	"io"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// goodMessages returns a broker with what it must have got.
func goodMessages() *broker {
	b := newBroker(2, "order.confirmed", "order.cancelled")
	for _, saga := range sagas {
		cause := ""
		for _, name := range saga.names {
			msg := message.NewMessage(uuid.NewString(), nil)
			msg.Metadata = message.Metadata{gormoutbox.HeaderName: name, gormoutbox.HeaderCorrelationID: saga.correlation, gormoutbox.HeaderCausationID: cause}
			b.sent = append(b.sent, sent{"orders", msg})
			cause = msg.UUID
		}
	}
	return b
}

// TestReportMessages: no message may be lost, doubled or of another cause.
func TestReportMessages(t *testing.T) {
	t.Parallel()
	require.NoError(t, reportMessages(io.Discard, goodMessages()))
	for name, change := range map[string]func(b *broker){
		"end lost":       func(b *broker) { b.sent = b.sent[:len(b.sent)-1] },
		"step lost":      func(b *broker) { b.sent = append(b.sent[:1], b.sent[2:]...) },
		"doubled":        func(b *broker) { b.sent = append(b.sent, b.sent[3]) },
		"no correlation": func(b *broker) { delete(b.sent[2].msg.Metadata, gormoutbox.HeaderCorrelationID) },
		"no cause":       func(b *broker) { delete(b.sent[2].msg.Metadata, gormoutbox.HeaderCausationID) },
	} {
		b := goodMessages()
		change(b)
		require.Error(t, reportMessages(io.Discard, b), name)
	}
}

// goodStates returns services with what they must have.
func goodStates(t *testing.T) (*orders, *warehouse) {
	t.Helper()
	dir, b := t.TempDir(), newBroker(0)
	o, err := newOrders(t.Context(), dir, b)
	require.NoError(t, err)
	t.Cleanup(o.closeDB)
	w, err := newWarehouse(t.Context(), dir, b)
	require.NoError(t, err)
	t.Cleanup(w.closeDB)
	require.NoError(t, o.db.Create([]Order{{ID: 1, Customer: "ada", Status: "confirmed"}, {ID: 2, Customer: "bob", Status: "cancelled"}}).Error)
	require.NoError(t, w.db.Create([]Reservation{
		{OrderID: 1, Item: "tea", Quantity: 2, Status: "shipped"}, {OrderID: 2, Item: "tea", Quantity: 3, Status: "released"},
	}).Error)
	require.NoError(t, w.db.Model(&Item{Name: "tea"}).Update("free", 8).Error)
	require.NoError(t, w.db.Model(&Account{Customer: "ada"}).Update("balance", 40).Error)
	w.bank.failures.Store(1)
	return o, w
}

// TestReportStates: no effect may be missing, doubled or not undone.
func TestReportStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(o *orders, w *warehouse) error
		cause  string
	}{
		"as it must be": {change: func(*orders, *warehouse) error { return nil }},
		"open":          {func(o *orders, _ *warehouse) error { return o.db.Model(&Order{ID: 1}).Update("status", "placed").Error }, "orders"},
		"reserved twice": {func(_ *orders, w *warehouse) error {
			return w.db.Create(&Reservation{OrderID: 1, Item: "tea", Quantity: 2, Status: "shipped"}).Error
		}, "stock"},
		"not released": {func(_ *orders, w *warehouse) error { return addFree(w.db, "tea", -3) }, "free"},
		"paid twice": {func(_ *orders, w *warehouse) error {
			return w.db.Model(&Account{Customer: "ada"}).Update("balance", -20).Error
		}, "money"},
		"no failure": {func(_ *orders, w *warehouse) error { w.bank.failures.Store(0); return nil }, "must fail once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, w := goodStates(t)
			require.NoError(t, test.change(o, w))
			err := reportStates(context.Background(), io.Discard, o, w)
			if test.cause == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.cause)
		})
	}
}
