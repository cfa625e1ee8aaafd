// Package formats shows events in two formats other than the row as JSON: Protobuf, and CloudEvents in Kafka's binary mode.
package formats

import (
	"slices"

	"github.com/google/uuid"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Order is saved by the shop. before=columns makes Change.Changed list what really changed, not what was assigned.
type Order struct {
	_      gormoutbox.Emit `outbox:"aggregate=order,topic=orders,before=columns"`
	ID     uuid.UUID
	Status string
	Cents  int64
	Card   string `outbox:"-"` // for this database only
	Note   string // for the shop only
}

// relevant tells whether consumers see a difference. Notes and cards are none of their business.
func relevant(c gormoutbox.Change) bool {
	return c.Kind != gormoutbox.Updated || slices.ContainsFunc(c.Changed, func(column string) bool {
		return column == "status" || column == "cents"
	})
}

// contentType is the header that both formats have.
const contentType = "content-type"

// OrderData is an order in JSON, field by field: a column that is added to Order is not published before it stands here.
type OrderData struct {
	ID     uuid.UUID `json:"id"`
	Status string    `json:"status"`
	Cents  int64     `json:"cents"`
}
