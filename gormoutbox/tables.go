package gormoutbox

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gormoutbox/outbox/internal/dialect"
)

// DefaultTable is the name of the events table unless configured.
const DefaultTable = "outbox_events"

// Tables are the names of the outbox tables, possibly schema-qualified.
type Tables struct {
	Events     string // the events
	Partitions string // leases and low marks
	Held       string // aggregates that wait for a retry or are parked
	Relays     string // the relays that are alive
	Schema     string // applied migrations
}

// TablesFor derives all names from that of the events table: "app.outbox_events"
// gives "app.outbox_partitions" and so on; a name that does not end in "_events"
// gets the suffixes as it is. An empty name means DefaultTable.
func TablesFor(events string) Tables {
	if events == "" {
		events = DefaultTable
	}
	base := strings.TrimSuffix(events, "_events")
	return Tables{
		Events:     events,
		Partitions: base + "_partitions",
		Held:       base + "_held",
		Relays:     base + "_relays",
		Schema:     base + "_schema",
	}
}

// ValidateTable returns a *ConfigError if name can't be the name of an events table.
func ValidateTable(name string) error {
	if problem := checkTable(name); problem != nil {
		return problem
	}
	return nil
}

// maxTable leaves room for suffixes below PostgreSQL's 63 bytes and MySQL's 64 characters.
const maxTable = 48

// maxSchema is PostgreSQL's limit for a name.
const maxSchema = 63

// checkTable refuses names that could not be quoted or would be cut by a database.
func checkTable(name string) *ConfigError {
	schema, table := dialect.SplitName(name)
	fail := func(cause, cure string) *ConfigError { return &ConfigError{Field: "Table", Cause: cause, Cure: cure} }
	switch {
	case strings.Contains(schema, "."):
		return fail("the table's name has more than one dot", `write "table" or "schema.table"`)
	case len(schema) > maxSchema:
		return fail("the schema's name has more than 63 bytes", "shorten it; PostgreSQL would cut it")
	case table == "" || (schema == "" && strings.HasPrefix(name, ".")):
		return fail("the table's name is empty", `write "table" or "schema.table"`)
	case len(table) > maxTable:
		return fail("the table's name has more than 48 bytes", "shorten it; names of further tables and indexes are made from it")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fail("the table's name has control characters", "use printable characters")
	}
	return nil
}
