package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

const retryPause = 50 * time.Millisecond // of a client that got no answer

// placedOrder is what a client sends.
type placedOrder struct {
	ID       uuid.UUID `json:"id"`
	SKU      string    `json:"sku"`
	Quantity int       `json:"quantity"`
	Card     string    `json:"card"`
}

// shop is the service as its clients see it.
type shop struct {
	address string
	http    *http.Client

	answered atomic.Int64 // requests
	retries  atomic.Int64
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{address: freeAddress(t), http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// freeAddress is one on which the service can listen, again after each start.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func (s *shop) healthy(ctx context.Context) bool {
	return s.request(ctx, http.MethodGet, "/healthz", nil) == nil
}

// customer places and pays orders one after the other. Between two requests it
// thinks for a while, so that the crashes fall into the time of the orders.
func (s *shop) customer(ctx context.Context, random *rand.Rand, orders []placedOrder) error {
	for _, order := range orders {
		for _, send := range []func() error{
			func() error { return s.request(ctx, http.MethodPost, "/orders", order) },
			func() error { return s.request(ctx, http.MethodPut, "/orders/"+order.ID.String()+"/pay", nil) },
		} {
			select {
			case <-time.After(time.Duration(random.Int64N(int64(thinkingTime)))):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := s.untilAnswered(ctx, send); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilAnswered sends a request again and again. The order's id makes that safe: a
// service that was killed may have done the work without answering.
func (s *shop) untilAnswered(ctx context.Context, send func() error) error {
	for {
		err := send()
		if err == nil {
			s.answered.Add(1)
			return nil
		}
		s.retries.Add(1)
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return fmt.Errorf("%w; last error: %w", ctx.Err(), err)
		}
	}
}

func (s *shop) request(ctx context.Context, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it has been read to its end
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return nil
}
