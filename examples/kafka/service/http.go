package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

type api struct {
	db  *gorm.DB
	log *slog.Logger
}

func newHandler(db *gorm.DB, log *slog.Logger) http.Handler {
	a := &api{db, log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", a.place)
	mux.HandleFunc("PUT /orders/{id}/pay", a.pay)
	mux.HandleFunc("GET /healthz", a.health)
	return mux
}

// answer is what a client sees of an order.
type answer struct {
	ID       uuid.UUID `json:"id"`
	SKU      string    `json:"sku"`
	Quantity int       `json:"quantity"`
	Status   string    `json:"status"`
}

func (a *api) place(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID       uuid.UUID `json:"id"`
		SKU      string    `json:"sku"`
		Quantity int       `json:"quantity"`
		Card     string    `json:"card"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&body); err != nil {
		http.Error(w, "the body is not an order: "+err.Error(), http.StatusBadRequest)
		return
	}
	if body.ID == uuid.Nil || body.SKU == "" || body.Quantity <= 0 {
		http.Error(w, "id (a UUID that you make), sku and a positive quantity are required", http.StatusBadRequest)
		return
	}
	order := Order{ID: body.ID, SKU: body.SKU, Quantity: body.Quantity, Card: body.Card}
	saved, created, err := place(r.Context(), a.db, order)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	a.reply(w, r, status, saved, err)
}

func (a *api) pay(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		http.Error(w, "the id is not a UUID", http.StatusBadRequest)
		return
	}
	order, err := pay(r.Context(), a.db, id)
	a.reply(w, r, http.StatusOK, order, err)
}

func (a *api) health(w http.ResponseWriter, r *http.Request) {
	if err := a.db.WithContext(r.Context()).Exec("SELECT 1").Error; err != nil {
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	}
}

func (a *api) reply(w http.ResponseWriter, r *http.Request, status int, order Order, err error) {
	switch {
	case errors.Is(err, errNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case errors.Is(err, errConflict):
		http.Error(w, err.Error(), http.StatusConflict)
		return
	case err != nil:
		a.log.ErrorContext(r.Context(), "request failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer{order.ID, order.SKU, order.Quantity, order.Status}) // the client may be gone
}
