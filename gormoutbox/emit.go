package gormoutbox

// Emit marks a GORM model whose saves become events. It is a zero-size type for
// a blank first field, whose tag says what is emitted:
//
//	type Order struct {
//		_      gormoutbox.Emit `outbox:"aggregate=order"`
//		ID     uuid.UUID
//		Status string
//		Card   string `outbox:"-"` // never leaves the database
//	}
//
// Options of the tag, separated by commas:
//
//   - aggregate=NAME, required: the aggregate type, first part of the event type.
//   - on=KINDS: which of created|updated|deleted are emitted. Defaults to all. Upserted
//     events come with created or updated. on=none leaves only what a Recorder has recorded.
//   - type=NAME: the event type; "{kind}" in it becomes the kind. Defaults to "<aggregate>.{kind}".
//   - topic=NAME: the topic. Defaults to Config.Topic, then to the event type.
//   - version=TEXT: the event_version header. Defaults to none.
//   - key=COLUMN: the column (or Go field) with the aggregate id. Defaults to the primary key.
//   - before=columns: an update first reads and locks the rows, so that the header "changed" has the columns whose
//     value really changed, and an update that changes nothing is no event. before=values adds
//     the header "previous": a JSON object of the old values of these columns. Both
//     cost a round trip more for each update. Defaults to neither: "changed" has the columns that were assigned.
//
// Only the type that declares the field is annotated, not one that embeds it.
//
// Options of other fields: "-" leaves the field out of payload, changed columns
// and errors; "plain" lets a field with a serializer that is not GORM's own into
// the payload as the serializer decodes it.
type Emit struct{}

// Kind is what a write did to a row.
type Kind string

// The kinds of events that writes of models produce.
const (
	Created Kind = "created"
	Updated Kind = "updated"
	Deleted Kind = "deleted"
	// Upserted is an insert-or-update of which the database does not tell which it was: Save of a value
	// whose key is set and not in the table, Save of a list, an upsert by clause.OnConflict, and associations that
	// are saved again with a change.
	Upserted Kind = "upserted"
)
