package capturetest

import (
	"cmp"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// Case is one way to write and what is expected of it.
type Case struct {
	// ID groups cases by the way to write, "C04" for example: C creates, U upserts,
	// S and F saves and FirstOr…, M updates, A associations, D deletes, R raw SQL.
	ID string
	// Name tells cases of one ID apart. It begins with "memory:" where the value in memory is not the row.
	Name string
	// Code is the write as a line of Go, for documentation.
	Code string
	// Expect says what comes of it. The first entry for a variant of the database counts;
	// the last one is for all others.
	Expect Expectations

	prepare []any
	// setUp is what no value can say.
	setUp func(db *gorm.DB) error
	write func(db *gorm.DB) outcome
	// world is where the case runs, the common tables if nil.
	world *world
	// modes are further sessions for it.
	modes []mode
}

// Result is what becomes of a write.
type Result string

const (
	// Captured means that the write is made and its events are those listed, if any.
	Captured Result = "captured"
	// Refused means a *gormoutbox.CaptureError, no row and no event.
	Refused Result = "refused"
	// Misconfigured means a *gormoutbox.ConfigError, no row and no event.
	Misconfigured Result = "misconfigured"
	// Fails means an error of GORM or the database, the same as without the plugin. Its transaction is rolled back.
	Fails Result = "fails"
)

// Expectation is what comes of a case on some databases.
type Expectation struct {
	// On are the variants that it is for, none for all that no other entry is for.
	On     []Variant
	Result Result
	// Events are the events in their order, or in any if the database decides.
	Events   []Event
	AnyOrder bool
	// Why says in words what is not plain: the reason of a refusal, or of a missing event.
	Why string
	// Unseen means that rows may change without an event, as the documentation says.
	Unseen bool
	// Kept are the events of statements before the one that was refused or failed. They and their rows stay
	// if the user ignores that and commits.
	Kept []Event
}

// Event is an expected event.
type Event struct {
	// Type is the event type, "account.created" for example.
	Type string
	// ID is the aggregate id. "#1" is the first key that the database makes, "*" any.
	ID string
	// Fields are fields of the payload, and Headers are headers, that the case is about.
	Fields  map[string]any
	Headers map[string]string
}

// Expectations are alternatives by variant.
type Expectations []Expectation

// For returns the expectation for a database of these variants.
func (all Expectations) For(variants ...Variant) Expectation {
	for _, e := range all {
		if len(e.On) == 0 || slices.ContainsFunc(e.On, func(v Variant) bool { return slices.Contains(variants, v) }) {
			return e
		}
	}
	return Expectation{}
}

// Cases returns all cases, sorted by topic and id.
func Cases() []Case {
	all := slices.Concat(
		createCases(), createMapCases(), createModelCases(), upsertCases(), saveCases(), letterCases(),
		updateCases(), bulkUpdateCases(), associationCases(), manyCases(), deleteCases(), rawCases(), clauseCases(), memoryCases(),
	)
	topic := func(c Case) int { return strings.Index("CUSFMADR", c.ID[:1]) }
	slices.SortStableFunc(all, func(a, b Case) int {
		return cmp.Or(cmp.Compare(topic(a), topic(b)), strings.Compare(a.ID, b.ID))
	})
	return all
}

func expect(events ...Event) Expectations { return Expectations{{Result: Captured, Events: events}} }

// none is a write without an event.
func none(why string) Expectations { return Expectations{{Result: Captured, Why: why}} }

// unseen is a write that the plugin does not see.
func unseen(why string) Expectations {
	return Expectations{{Result: Captured, Why: why, Unseen: true}}
}

func refused(why string) Expectations { return Expectations{{Result: Refused, Why: why}} }

func fails(why string) Expectations { return Expectations{{Result: Fails, Why: why}} }

// except puts another expectation in front, for some variants.
func (all Expectations) except(other Expectations, on ...Variant) Expectations {
	first := other[0]
	first.On = on
	return append(Expectations{first}, all...)
}

// keeping says what statements before the refused one leave.
func (all Expectations) keeping(events ...Event) Expectations {
	all[0].Kept = events
	return all
}

// anyOrder is for rows that the user did not list.
func (all Expectations) anyOrder() Expectations {
	all[0].AnyOrder = true
	return all
}

func created(aggregate, id string) Event { return Event{Type: aggregate + ".created", ID: id} }

func updated(aggregate, id string) Event { return Event{Type: aggregate + ".updated", ID: id} }

func upserted(aggregate, id string) Event { return Event{Type: aggregate + ".upserted", ID: id} }

func deleted(aggregate, id string) Event { return Event{Type: aggregate + ".deleted", ID: id} }

// softDeleted is a paper that stays with a deletion time.
func softDeleted(id string) Event {
	return deleted("paper", id).header(gormoutbox.HeaderSoftDelete, "true")
}

// with adds a field of the payload.
func (e Event) with(field string, value any) Event {
	fields := map[string]any{field: value}
	for name, v := range e.Fields {
		fields[name] = v
	}
	e.Fields = fields
	return e
}

// header adds a header, and changed the columns that an update assigned.
func (e Event) header(name, value string) Event {
	headers := map[string]string{name: value}
	for n, v := range e.Headers {
		headers[n] = v
	}
	e.Headers = headers
	return e
}

func (e Event) changed(columns string) Event { return e.header(gormoutbox.HeaderChanged, columns) }

// outcome is what the user of a write sees.
type outcome struct {
	rows   int64
	err    error
	values []any
}

// wrote is the outcome of a chained call; values are those that the user passed.
func wrote(tx *gorm.DB, values ...any) outcome {
	return outcome{rows: tx.RowsAffected, err: tx.Error, values: values}
}

// did is the outcome of a call that returns an error alone.
func did(err error, values ...any) outcome { return outcome{err: err, values: values} }
