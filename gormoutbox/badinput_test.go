package gormoutbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormoutbox/outbox/gormoutbox"
	"github.com/gormoutbox/outbox/internal/testenv"
)

type keyless struct {
	_    gormoutbox.Emit `outbox:"aggregate=x"`
	Name string
}

type twice struct {
	_, _ gormoutbox.Emit `outbox:"aggregate=x"`
	ID   int
}

type pointed struct {
	_  *gormoutbox.Emit `outbox:"aggregate=x"`
	ID int
}

type mistyped struct {
	_  struct{} `outbox:"aggregate=x"`
	ID int
}

type floatKey struct {
	_  gormoutbox.Emit `outbox:"aggregate=x"`
	ID float64
}

type excludedKey struct {
	_  gormoutbox.Emit `outbox:"aggregate=x"`
	ID int             `outbox:"-"`
}

type writeOnlyKey struct {
	_  gormoutbox.Emit `outbox:"aggregate=x"`
	ID int             `gorm:"primaryKey;->:false;<-"`
}

type badFieldTag struct {
	_    gormoutbox.Emit `outbox:"aggregate=x"`
	ID   int
	Name string `outbox:"hide"`
}

type selfMarshalling struct {
	_  gormoutbox.Emit `outbox:"aggregate=x"`
	ID int
}

func (selfMarshalling) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

type sealed struct {
	_    gormoutbox.Emit `outbox:"aggregate=x"`
	ID   int
	Name string `gorm:"serializer:sealing"`
}

type sealing struct{ schema.JSONSerializer }

func init() { schema.RegisterSerializer("sealing", sealing{}) }

type hiding struct {
	Secret string `outbox:"-"`
}

type hidingMap struct {
	_    gormoutbox.Emit `outbox:"aggregate=x"`
	ID   int
	Data map[string]hiding `gorm:"serializer:json"`
}

func tagged(tag string) any { return gormoutbox.Annotate(plain{}, tag) }

// Every mistake in Config is a ConfigError with field, cause and cure, from
// db.Use; all of one config are reported together.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		config gormoutbox.Config
		field  string
		cause  string
	}{
		"negative partitions":   {gormoutbox.Config{Partitions: -1}, "Partitions", "out of range"},
		"too many partitions":   {gormoutbox.Config{Partitions: 1025}, "Partitions", "out of range"},
		"control in name":       {gormoutbox.Config{Name: "a\nb"}, "Name", "control"},
		"long table":            {gormoutbox.Config{Table: strings.Repeat("t", 49)}, "Table", "more than 48 bytes"},
		"long schema":           {gormoutbox.Config{Table: strings.Repeat("t", 64) + ".t"}, "Table", "more than 63 bytes"},
		"two dots":              {gormoutbox.Config{Table: "a.b.c"}, "Table", "more than one dot"},
		"no table":              {gormoutbox.Config{Table: "a."}, "Table", "empty"},
		"no schema":             {gormoutbox.Config{Table: ".a"}, "Table", "empty"},
		"control in table":      {gormoutbox.Config{Table: "a\x00"}, "Table", "control"},
		"schema on SQLite":      {gormoutbox.Config{Table: "main.outbox_events"}, "Table", "attached"},
		"nil model":             {gormoutbox.Config{Models: []any{nil}}, "Models[0]", "no model"},
		"int model":             {gormoutbox.Config{Models: []any{3}}, "Models[0]", "no model"},
		"model without tag":     {gormoutbox.Config{Models: []any{plain{}}}, "Models[0]", "not annotated"},
		"model annotated twice": {gormoutbox.Config{Models: []any{gormoutbox.Annotate(Order{}, "aggregate=x")}}, "Models[0]", "by its tag and by value"},
		"no primary key":        {gormoutbox.Config{Models: []any{keyless{}}}, "keyless", "no primary key"},
		"two markers":           {gormoutbox.Config{Models: []any{twice{}}}, "twice", "two fields"},
		"pointer marker":        {gormoutbox.Config{Models: []any{pointed{}}}, "pointed._", "pointer"},
		"marker of other type":  {gormoutbox.Config{Models: []any{mistyped{}}}, "mistyped._", "struct {}"},
		"float key":             {gormoutbox.Config{Models: []any{floatKey{}}}, "floatKey.ID", "no text form"},
		"excluded key":          {gormoutbox.Config{Models: []any{excludedKey{}}}, "excludedKey.ID", `outbox:"-"`},
		"key can't be read":     {gormoutbox.Config{Models: []any{writeOnlyKey{}}}, "writeOnlyKey.ID", "can't be read"},
		"field tag":             {gormoutbox.Config{Models: []any{badFieldTag{}}}, "badFieldTag.Name", `unknown outbox option "hide"`},
		"MarshalJSON":           {gormoutbox.Config{Models: []any{selfMarshalling{}}}, "selfMarshalling", "MarshalJSON"},
		"foreign serializer":    {gormoutbox.Config{Models: []any{sealed{}}}, "sealed.Name", "serializer"},
		"exclusion in a map":    {gormoutbox.Config{Models: []any{hidingMap{}}}, "hidingMap.Data", "reached through map"},
		"semicolon":             {gormoutbox.Config{Models: []any{tagged("aggregate=x;topic=y")}}, "aggregate", "separator"},
		"unknown option":        {gormoutbox.Config{Models: []any{tagged("aggregate=x,colour=red")}}, "colour", "unknown option"},
		"option twice":          {gormoutbox.Config{Models: []any{tagged("aggregate=x,topic=a,topic=b")}}, "topic", "twice"},
		"no aggregate":          {gormoutbox.Config{Models: []any{tagged("on=created")}}, "aggregate", "missing"},
		"empty tag":             {gormoutbox.Config{Models: []any{tagged("")}}, "Models[0]", "tag is empty"},
		"empty aggregate":       {gormoutbox.Config{Models: []any{tagged("aggregate=")}}, "aggregate", "empty"},
		"long aggregate":        {gormoutbox.Config{Models: []any{tagged("aggregate=" + long)}}, "aggregate", "256 bytes"},
		"long event type":       {gormoutbox.Config{Models: []any{tagged("aggregate=" + long[:250])}}, "aggregate", "event type"},
		"control in aggregate":  {gormoutbox.Config{Models: []any{tagged("aggregate=a\x01b")}}, "aggregate", "control"},
		"control in type":       {gormoutbox.Config{Models: []any{tagged("aggregate=a,type=a\x01b")}}, "type", "control"},
		"empty topic":           {gormoutbox.Config{Models: []any{tagged("aggregate=a,topic=")}}, "topic", "empty"},
		"bad UTF-8":             {gormoutbox.Config{Models: []any{tagged("aggregate=a,topic=\xff")}}, "topic", "UTF-8"},
		"unknown kind":          {gormoutbox.Config{Models: []any{tagged("aggregate=a,on=created|saved")}}, "on", `unknown kind "saved"`},
		"unknown key":           {gormoutbox.Config{Models: []any{tagged("aggregate=a,key=nope")}}, "key", "no column"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := testenv.SQLite(t).Open(t)
			test.config.Models = append(test.config.Models, 4711) // a second mistake, to be reported too
			err := g.Use(gormoutbox.New(test.config))
			require.Error(t, err)
			assert.Contains(t, err.Error(), "int is no model")
			found := false
			for _, c := range configErrors(err) {
				assert.NotEmpty(t, c.Cure)
				found = found || strings.Contains(c.Field, test.field) && strings.Contains(c.Cause, test.cause)
			}
			assert.True(t, found, err)
			_, err = gormoutbox.On(g)
			require.ErrorIs(t, err, gormoutbox.ErrNotRegistered)
		})
	}
}

// configErrors are all ConfigErrors in the tree of err.
func configErrors(err error) []*gormoutbox.ConfigError {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case *gormoutbox.ConfigError:
		return []*gormoutbox.ConfigError{e}
	case interface{ Unwrap() []error }:
		var all []*gormoutbox.ConfigError
		for _, inner := range e.Unwrap() {
			all = append(all, configErrors(inner)...)
		}
		return all
	default:
		if inner := errors.Unwrap(err); inner != nil {
			return configErrors(inner)
		}
		return nil
	}
}

func TestBadRegistration(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	require.NoError(t, g.Use(gormoutbox.New(gormoutbox.Config{Table: "shop_events"})))
	require.ErrorIs(t, g.Use(gormoutbox.New(gormoutbox.Config{})), gorm.ErrRegistered)
	for _, table := range []string{"shop_events", "shop", "SHOP_events"} {
		err := g.Use(gormoutbox.New(gormoutbox.Config{Name: "second", Table: table}))
		require.Len(t, configErrors(err), 1, table)
		assert.Equal(t, "Table", configErrors(err)[0].Field)
	}
	// An annotation that is wrong is reported at the first use if the model was not registered.
	require.NoError(t, g.AutoMigrate(&badFieldTag{}))
	err := g.Create(&badFieldTag{ID: 1}).Error
	require.Len(t, configErrors(err), 1)
	assert.Zero(t, count(t, g, &badFieldTag{}))
}

func TestNilDB(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, g := range []*gorm.DB{nil, {}} {
		for name, err := range map[string]error{
			"Migrate":     gormoutbox.Migrate(ctx, g),
			"Check":       gormoutbox.Check(ctx, g),
			"CheckTable":  gormoutbox.CheckTable(ctx, g, ""),
			"Append":      gormoutbox.Append(g, gormoutbox.Event{}),
			"Append of p": gormoutbox.New(gormoutbox.Config{}).Append(g),
			"Transaction": gormoutbox.Transaction(g, func(*gorm.DB) error { return nil }),
			"Initialize":  gormoutbox.New(gormoutbox.Config{}).Initialize(g),
		} {
			assert.Len(t, configErrors(err), 1, "%s: %v", name, err)
		}
	}
	g := testenv.SQLite(t).Open(t)
	assert.Len(t, configErrors(gormoutbox.Transaction(g, nil)), 1)
	assert.Len(t, configErrors(gormoutbox.CheckTable(ctx, g, "a.b.c")), 1)
	require.ErrorIs(t, gormoutbox.Append(g, gormoutbox.Event{}), gormoutbox.ErrNotRegistered)
	require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
		assert.Len(t, configErrors(gormoutbox.Migrate(ctx, tx)), 1)
		assert.Len(t, configErrors(gormoutbox.Check(ctx, tx)), 1)
		return nil
	}))
}

type foreign struct{ gorm.Dialector }

func (foreign) Name() string { return "oracle" }

func TestUnsupportedDialect(t *testing.T) {
	t.Parallel()
	g := testenv.SQLite(t).Open(t)
	g.Dialector = foreign{g.Dialector}
	err := g.Use(gormoutbox.New(gormoutbox.Config{}))
	require.Len(t, configErrors(err), 1)
	assert.ErrorContains(t, err, `"oracle"`)
}

type stubborn struct{ bad bool }

func (s stubborn) MarshalJSON() ([]byte, error) {
	if s.bad {
		panic("secret value")
	}
	return nil, errMarshal
}

func TestBadEvents(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	good := gormoutbox.Event{Type: "t", AggregateType: "a", AggregateID: "1", Payload: "{}"}
	with := func(change func(*gormoutbox.Event)) gormoutbox.Event {
		e := good
		change(&e)
		return e
	}
	bad := map[string]struct {
		event gormoutbox.Event
		field string
	}{
		"no type":             {with(func(e *gormoutbox.Event) { e.Type = "" }), "Type"},
		"long type":           {with(func(e *gormoutbox.Event) { e.Type = long }), "Type"},
		"control in type":     {with(func(e *gormoutbox.Event) { e.Type = "a\x7f" }), "Type"},
		"long topic":          {with(func(e *gormoutbox.Event) { e.Topic = long }), "Topic"},
		"control in topic":    {with(func(e *gormoutbox.Event) { e.Topic = "a\n" }), "Topic"},
		"no aggregate type":   {with(func(e *gormoutbox.Event) { e.AggregateType = "" }), "AggregateType"},
		"long aggregate type": {with(func(e *gormoutbox.Event) { e.AggregateType = long }), "AggregateType"},
		"no aggregate id":     {with(func(e *gormoutbox.Event) { e.AggregateID = "" }), "AggregateID"},
		"long aggregate id":   {with(func(e *gormoutbox.Event) { e.AggregateID = long }), "AggregateID"},
		"NUL in aggregate id": {with(func(e *gormoutbox.Event) { e.AggregateID = "a\x00" }), "AggregateID"},
		"bad aggregate id":    {with(func(e *gormoutbox.Event) { e.AggregateID = "\xff" }), "AggregateID"},
		"bad version":         {with(func(e *gormoutbox.Event) { e.Version = "\xff" }), "Version"},
		"nil payload":         {with(func(e *gormoutbox.Event) { e.Payload = nil }), "Payload"},
		"nil bytes":           {with(func(e *gormoutbox.Event) { e.Payload = []byte(nil) }), "Payload"},
		"nil raw message":     {with(func(e *gormoutbox.Event) { e.Payload = json.RawMessage(nil) }), "Payload"},
		"channel":             {with(func(e *gormoutbox.Event) { e.Payload = make(chan int) }), "Payload"},
		"infinity":            {with(func(e *gormoutbox.Event) { e.Payload = math.Inf(1) }), "Payload"},
		"failing marshaller":  {with(func(e *gormoutbox.Event) { e.Payload = stubborn{} }), "Payload"},
		"panicking":           {with(func(e *gormoutbox.Event) { e.Payload = stubborn{true} }), "Payload"},
		"header without name": {with(func(e *gormoutbox.Event) { e.Headers = map[string]string{"": "x"} }), "Headers"},
		"header not UTF-8":    {with(func(e *gormoutbox.Event) { e.Headers = map[string]string{"a": "\xff"} }), "Headers"},
		"far future":          {with(func(e *gormoutbox.Event) { e.AvailableAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), "AvailableAt"},
		"far past":            {with(func(e *gormoutbox.Event) { e.AvailableAt = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC) }), "AvailableAt"},
	}
	for _, name := range []string{"aggregate_type", "aggregate_id", "event_type", "event_version", "occurred_at", "changed", "name", "origin_id", "replayed", "_watermill_message_uuid"} {
		assert.True(t, gormoutbox.IsReservedHeader(name))
		bad["reserved "+name] = struct {
			event gormoutbox.Event
			field string
		}{with(func(e *gormoutbox.Event) { e.Headers = map[string]string{name: "x"} }), "Headers"}
	}
	g := setup(t, testenv.SQLite(t), gormoutbox.Config{})
	for name, test := range bad {
		err := gormoutbox.Append(g, good, test.event)
		e, ok := errors.AsType[*gormoutbox.EventError](err)
		require.True(t, ok, "%s: %v", name, err)
		assert.Equal(t, test.field, e.Field, name)
		assert.NotEmpty(t, e.Cause, name)
		assert.NotEmpty(t, e.Cure, name)
		assert.Contains(t, err.Error(), "event 2 of 2", name)
		assert.NotContains(t, err.Error(), "secret", name)
		assert.Empty(t, events(t, g), name)
	}
	idle(t, g)
}

// A key that can't be an event's is refused before the row is written.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	type wide struct {
		_    gormoutbox.Emit `outbox:"aggregate=wide"`
		ID   string          `gorm:"primaryKey;size:400"`
		Name string
	}
	type other struct {
		_     gormoutbox.Emit `outbox:"aggregate=other,key=group"`
		ID    int
		Group string `gorm:"size:400"`
	}
	each(t, func(t *testing.T, db testenv.Database) {
		g := setup(t, db, gormoutbox.Config{}, &wide{}, &other{})
		row := &wide{ID: strings.Repeat("x", 256)}
		require.NoError(t, ignoring(g).Create(row).Error)
		require.NoError(t, g.Transaction(func(tx *gorm.DB) error {
			for _, err := range []error{
				tx.Create(&wide{ID: strings.Repeat("y", 256)}).Error, tx.Model(row).Update("name", "n").Error, tx.Delete(row).Error,
			} {
				e, ok := errors.AsType[*gormoutbox.EventError](err)
				require.True(t, ok, err)
				assert.Equal(t, "AggregateID", e.Field)
			}
			return nil // nothing was written, so the transaction is alive
		}))
		// The aggregate id of another column is known only from the row: it is rolled back.
		for _, group := range []string{"", strings.Repeat("x", 256)} {
			_, ok := errors.AsType[*gormoutbox.EventError](g.Create(&other{Group: group}).Error)
			require.True(t, ok)
		}
		assert.Equal(t, 1, count(t, g, &wide{}))
		assert.Zero(t, count(t, g, &other{}))
		assert.Empty(t, events(t, g))
	})
}

func TestPanickingFunctions(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]gormoutbox.Config{
		"Headers": {Headers: func(context.Context) map[string]string { panic("card-4111 secret") }},
		"Topic":   {Topic: func(gormoutbox.TopicParams) string { panic(errors.New("card-4111 secret")) }},
		"Marshal": {Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) { return []byte{}[4111:], nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setup(t, testenv.SQLite(t), config, &Order{})
			errs := []error{g.Create(newOrder()).Error}
			if name != "Marshal" {
				errs = append(errs, gormoutbox.Append(g, gormoutbox.Event{Type: "t", Payload: "1"}))
			}
			for _, err := range errs {
				require.ErrorContains(t, err, "panic")
				assert.ErrorContains(t, err, "badinput_test.go:")
				assert.NotContains(t, err.Error(), "4111")
				assert.NotContains(t, err.Error(), "/badinput")
			}
			assert.Zero(t, count(t, g, &Order{}))
			idle(t, g)
		})
	}
}

func TestBadTopicAndMarshal(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]gormoutbox.Config{
		"Topic":   {Topic: func(gormoutbox.TopicParams) string { return "a\nb" }},
		"Payload": {Marshal: func(context.Context, gormoutbox.Change) ([]byte, error) { return nil, nil }},
		"Headers": {Headers: func(context.Context) map[string]string { return map[string]string{"name": "x"} }},
	} {
		g := setup(t, testenv.SQLite(t), config, &Order{})
		e, ok := errors.AsType[*gormoutbox.EventError](g.Create(newOrder()).Error)
		require.True(t, ok)
		assert.Equal(t, field, e.Field)
		assert.Zero(t, count(t, g, &Order{}))
	}
}
