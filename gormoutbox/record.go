package gormoutbox

import (
	"time"

	"github.com/google/uuid"
)

// Record is an event as it stands in the outbox, for the relay and the adapters.
type Record struct {
	// Seq is the number that orders events; it is unique in the table.
	Seq int64
	// Part is the partition, see Partition.
	Part          int
	ID            uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	// Topic is empty if it is the event type.
	Topic string
	// Payload is published byte for byte.
	Payload []byte
	// Headers are those that were saved; headers that repeat columns are not among them.
	Headers map[string]string
	// CreatedAt is the database's time of the save, in UTC.
	CreatedAt time.Time
	// Attempts is how many attempts to publish were charged to the event.
	Attempts int
}
