package dialect

import (
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// arrayBytes is up to how many bytes of payload and headers a statement has arrays, in which bytes are hexadecimal
// and take twice the room.
const arrayBytes = 256 << 10

// cachedRows is up to how many rows the text of a statement with placeholders is kept.
const cachedRows = 100

// EventRow is a row of the events table as it is inserted.
type EventRow struct {
	Part          int
	ID            uuid.UUID
	AggregateType string
	AggregateID   string
	EventType     string
	Topic         string
	Payload       []byte
	Headers       string
	// AvailableAt is in microseconds since the epoch; 0 is NULL.
	AvailableAt int64
}

// EventColumns is how many placeholders a row takes.
const EventColumns = 8

// EventInsert builds the INSERT of events into one table. It is safe for concurrent use.
type EventInsert struct {
	dialect Dialect
	head    string
	cache   sync.Map // string by number of rows
}

// NewEventInsert prepares the statements for a table.
func NewEventInsert(d Dialect, table string) *EventInsert {
	return &EventInsert{
		dialect: d,
		head: "INSERT INTO " + d.Quote(table) +
			" (part, id, aggregate_type, aggregate_id, event_type, topic, payload, headers, available_at) ",
	}
}

// Build returns the statement that inserts the rows in their order.
func (i *EventInsert) Build(rows []EventRow) (query string, args []any) {
	if _, ok := i.dialect.(Postgres); ok && len(rows) > 1 {
		size := 0
		for r := range rows {
			size += len(rows[r].Payload) + len(rows[r].Headers)
		}
		if size <= arrayBytes {
			return i.arrays(rows)
		}
	}
	return i.values(rows)
}

// values is INSERT … VALUES with placeholders.
func (i *EventInsert) values(rows []EventRow) (query string, args []any) {
	delayed := false
	args = make([]any, 0, len(rows)*EventColumns)
	for n := range rows {
		r := &rows[n]
		delayed = delayed || r.AvailableAt != 0
		args = append(args, r.Part, r.ID.String(), r.AggregateType, r.AggregateID, r.EventType, r.Topic, r.Payload, r.Headers)
	}
	if !delayed {
		if text, ok := i.cache.Load(len(rows)); ok {
			return text.(string), args
		}
	}
	var b strings.Builder
	b.WriteString(i.head)
	b.WriteString("VALUES ")
	for n := range rows {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString("(?,?,?,?,?,?,?,?,")
		i.writeTime(&b, rows[n].AvailableAt)
		b.WriteByte(')')
	}
	text := i.dialect.Rebind(b.String())
	if !delayed && len(rows) <= cachedRows {
		i.cache.Store(len(rows), text)
	}
	return text, args
}

func (i *EventInsert) writeTime(b *strings.Builder, micros int64) {
	if micros == 0 {
		b.WriteString("NULL")
		return
	}
	b.WriteString(i.dialect.FromMicros(micros))
}

// arrays has nine parameters, whatever the number of rows: one text for the statement cache and one plan. They are passed
// as text because database/sql drivers have no common array type. unnest keeps the order, and
// so do the numbers that are drawn.
func (i *EventInsert) arrays(rows []EventRow) (query string, args []any) {
	const text = "SELECT p, i, at, ai, et, t, pl, h, timestamptz 'epoch' + av * interval '1 microsecond' " +
		"FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::bigint[]) " +
		"AS r (p, i, at, ai, et, t, pl, h, av)"
	var cols [9]strings.Builder
	for c := range cols {
		cols[c].WriteByte('{')
	}
	for n := range rows {
		r := &rows[n]
		if n > 0 {
			for c := range cols {
				cols[c].WriteByte(',')
			}
		}
		cols[0].WriteString(strconv.Itoa(r.Part))
		cols[1].WriteString(r.ID.String())
		for c, s := range [...]string{r.AggregateType, r.AggregateID, r.EventType, r.Topic} {
			writeArrayText(&cols[2+c], s)
		}
		cols[6].WriteString(`"\\x`)
		cols[6].WriteString(hex.EncodeToString(r.Payload))
		cols[6].WriteByte('"')
		writeArrayText(&cols[7], r.Headers)
		if r.AvailableAt == 0 {
			cols[8].WriteString("NULL")
		} else {
			cols[8].WriteString(strconv.FormatInt(r.AvailableAt, 10))
		}
	}
	args = make([]any, len(cols))
	for c := range cols {
		cols[c].WriteByte('}')
		args[c] = cols[c].String()
	}
	return i.head + text, args
}

// writeArrayText writes an element of the text form of text[].
func writeArrayText(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
}
