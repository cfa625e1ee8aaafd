package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

func setup(t *testing.T) (http.Handler, *gorm.DB) {
	t.Helper()
	db := testenv.Postgres(t).Open(t, &gorm.Config{TranslateError: true})
	require.NoError(t, prepare(t.Context(), db, "orders"))
	return newHandler(db, slog.New(slog.DiscardHandler)), db
}

func send(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w
}

func TestEachChangeIsOneEvent(t *testing.T) {
	t.Parallel()
	h, db := setup(t)
	id := uuid.NewString()
	order := `{"id":"` + id + `","sku":"tea","quantity":2,"card":"no-4242-card"}`

	assert.Equal(t, http.StatusCreated, send(t, h, "POST", "/orders", order).Code)
	assert.Equal(t, http.StatusOK, send(t, h, "POST", "/orders", order).Code, "placed again")
	for range 2 {
		w := send(t, h, "PUT", "/orders/"+id+"/pay", "")
		assert.Equal(t, http.StatusOK, w.Code)
		assert.JSONEq(t, `{"id":"`+id+`","sku":"tea","quantity":2,"status":"paid"}`, w.Body.String())
	}

	var events []struct {
		EventType, Topic, AggregateID string
		Payload                       []byte
	}
	require.NoError(t, db.Raw("SELECT event_type, topic, aggregate_id, payload FROM outbox_events ORDER BY seq").Scan(&events).Error)
	require.Len(t, events, 2)
	for i, eventType := range []string{"order.created", "order.updated"} {
		assert.Equal(t, eventType, events[i].EventType)
		assert.Equal(t, "orders", events[i].Topic)
		assert.Equal(t, id, events[i].AggregateID)
		assert.NotContains(t, string(events[i].Payload), "no-4242-card")
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	h, db := setup(t)
	id := uuid.NewString()
	require.Equal(t, http.StatusCreated, send(t, h, "POST", "/orders", `{"id":"`+id+`","sku":"tea","quantity":2}`).Code)
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/orders", `{"id":"` + id + `","sku":"tea","quantity":3}`, http.StatusConflict},
		{"POST", "/orders", `no JSON`, http.StatusBadRequest},
		{"POST", "/orders", `{"sku":"tea","quantity":3}`, http.StatusBadRequest},
		{"PUT", "/orders/x/pay", ``, http.StatusBadRequest},
		{"PUT", "/orders/" + uuid.NewString() + "/pay", ``, http.StatusNotFound},
	} {
		assert.Equal(t, test.want, send(t, h, test.method, test.path, test.body).Code, "%s %s %s", test.method, test.path, test.body)
	}
	var n int64
	require.NoError(t, db.Table("outbox_events").Count(&n).Error)
	assert.EqualValues(t, 1, n)
	assert.Equal(t, http.StatusOK, send(t, h, "GET", "/healthz", "").Code)
}
