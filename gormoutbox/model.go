package gormoutbox

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"gorm.io/gorm/schema"
)

// model is an annotated model on one database: the annotation, checked against
// the schema that GORM made of the type.
type model struct {
	annotation
	schema   *schema.Schema
	name     string
	primary  []*schema.Field
	key      []*schema.Field // of the aggregate id
	excluded map[string]bool // columns that never leave the database
	// marshal makes the payloads; nil means the projection.
	marshal    MarshalFunc
	projection atomic.Pointer[projection]
	// unprojected says why there is no projection, which only a marshaller of the user makes possible.
	unprojected error
	columns     atomic.Pointer[columns]
	// readOnly says that some fields are never written by GORM, unreadable that some with a default are never read.
	readOnly, unreadable bool
	// emitter says that the model is an Emitter, records that it has a Recorder.
	emitter, records bool
}

// compile checks an annotation against the schema and returns all mistakes together.
func compile(s *schema.Schema, tag string, marshal MarshalFunc) (*model, error) {
	name := s.ModelType.String()
	a, errs := parseTag(name, tag)
	pointer := reflect.PointerTo(s.ModelType)
	m := &model{
		annotation: a, schema: s, name: name, primary: s.PrimaryFields, excluded: map[string]bool{}, marshal: marshal,
		emitter: pointer.Implements(emitterType), records: pointer.Implements(recorderType),
		readOnly:   slices.ContainsFunc(s.Fields, neverWritten),
		unreadable: slices.ContainsFunc(s.FieldsWithDefaultDBValue, func(f *schema.Field) bool { return !f.Readable }),
	}
	fail := func(field, cause, cure string) {
		errs = append(errs, &ConfigError{Field: name + field, Cause: cause, Cure: cure})
	}
	if len(s.PrimaryFields) == 0 {
		fail("", "it has no primary key, so its rows can't be told apart", `give it one, for example with gorm:"primaryKey"`)
	}
	m.key = s.PrimaryFields
	if a.key != "" {
		if f := s.LookUpField(a.key); f != nil && f.DBName != "" {
			m.key = []*schema.Field{f}
		} else {
			fail(" outbox tag key", fmt.Sprintf("%q is no column of the model", a.key), "name a column or Go field")
		}
	}
	for _, f := range s.Fields {
		if f.DBName == "" {
			continue
		}
		tag := outboxTag(s.ModelType, f)
		if tag == "-" {
			m.excluded[f.DBName] = true
			continue
		}
		if tag != "plain" && foreignSerializer(f) {
			fail("."+strings.Join(f.BindNames, "."), "its serializer is not GORM's own, so the event could hold in plain what the row holds encrypted",
				`tag it outbox:"-" to leave it out or outbox:"plain" to allow that`)
		}
	}
	for _, f := range slices.Concat(m.key, m.primary) {
		if !hasText(f.FieldType) {
			fail("."+f.Name, "a key of type "+f.FieldType.String()+" has no text form", "use a string, an integer, or a type with driver.Valuer such as a UUID")
		}
		if !f.Readable {
			fail("."+f.Name, "it is a key and can't be read", `remove "->:false" from its gorm tag`)
		}
	}
	for _, f := range m.key {
		if m.excluded[f.DBName] {
			fail("."+f.Name, `the aggregate id is made of it and it is tagged outbox:"-"`, "remove the tag, or choose another column with key=")
		}
	}
	if p, problems := project(s, name); len(problems) == 0 {
		m.projection.Store(p)
	} else if m.unprojected = errors.Join(problems...); marshal == nil {
		errs = append(errs, problems...)
	}
	return m, errors.Join(errs...)
}

// project makes the default payload of a model, or says why there is none.
func project(s *schema.Schema, name string) (*projection, []error) {
	if marshalsItself(s.ModelType) {
		return nil, []error{&ConfigError{
			Field: name, Cause: "it has or inherits MarshalJSON or MarshalText, which would decide what the event says", Cure: "set Config.Marshal, or remove the method",
		}}
	}
	b := &projectionBuilder{model: name, schema: s}
	return b.build(s.ModelType, nil, true), b.errs
}

// outboxTag is the tag of the field or of an embedded struct around it.
func outboxTag(t reflect.Type, f *schema.Field) string {
	for _, name := range f.BindNames {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		sf, ok := t.FieldByName(name)
		if !ok {
			break
		}
		if tag := sf.Tag.Get("outbox"); tag != "" {
			return tag
		}
		t = sf.Type
	}
	return f.Tag.Get("outbox")
}

func foreignSerializer(f *schema.Field) bool {
	if f.Serializer == nil {
		return false
	}
	if reflect.PointerTo(f.IndirectFieldType).Implements(serializerType) {
		return true
	}
	switch strings.ToLower(f.TagSettings["SERIALIZER"]) {
	case "json", "gob", "unixtime":
		return false
	}
	return true
}

// payload is the row as JSON.
func (m *model) payload(rv reflect.Value) ([]byte, error) {
	if m.unprojected != nil {
		return nil, &EventError{Field: "Payload", Cause: m.name + " has no payload by default", Cure: "make one", err: m.unprojected}
	}
	var b encoder
	if err := m.projection.Load().encode(&b, rv); err != nil {
		return nil, &EventError{Field: "Payload", Cause: m.name + " can't be marshalled", Cure: "mend the field's type or set Config.Marshal", err: err}
	}
	return b.Bytes(), nil
}

// primaryKey is the key of a row. Parts that are zero have no text.
func (m *model) primaryKey(ctx context.Context, rv reflect.Value) (rowKey, error) {
	k := rowKey{values: make([]any, len(m.primary)), zero: make([]bool, len(m.primary))}
	parts := make([]string, len(m.primary))
	for i, f := range m.primary {
		k.values[i], k.zero[i] = f.ValueOf(ctx, rv)
		if k.zero[i] {
			continue
		}
		var err error
		if parts[i], err = keyText(k.values[i]); err != nil {
			return k, m.keyError(f, err)
		}
	}
	k.identity = joinKey(parts)
	return k, nil
}

func (m *model) keyError(f *schema.Field, err error) error {
	return &EventError{Field: "AggregateID", Cause: fmt.Sprintf("%s.%s has no text form", m.name, f.Name), Cure: "use a string, integer or UUID, or another column with key=", err: err}
}

// aggregateID is the text of the key columns.
func (m *model) aggregateID(ctx context.Context, rv reflect.Value) (string, error) {
	parts := make([]string, len(m.key))
	for i, f := range m.key {
		// Zero is a value, such as the number of a tenant: a create was asked for its key before.
		v, _ := f.ValueOf(ctx, rv)
		if null, err := isNull(v); err == nil && null {
			return "", &EventError{Field: "AggregateID", Cause: fmt.Sprintf("%s.%s is NULL", m.name, f.Name), Cure: "set it before the save, or choose another column with key="}
		}
		s, err := keyText(v)
		if err != nil {
			return "", m.keyError(f, err)
		}
		parts[i] = s
	}
	id := joinKey(parts)
	return id, checkKey(id)
}

// joinKey joins the parts of a composite key so that different keys stay
// different: "|" and "\" inside of a part are escaped. A single part stays as it is.
func joinKey(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	escape := strings.NewReplacer(`\`, `\\`, `|`, `\|`)
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escape.Replace(p)
	}
	return strings.Join(escaped, "|")
}

var valuerType = reflect.TypeFor[driver.Valuer]()

// hasText says whether keyText may know the type.
func hasText(t reflect.Type) bool {
	if t.Implements(valuerType) {
		return true
	}
	if t.Kind() == reflect.Pointer {
		return hasText(t.Elem())
	}
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	default:
		return false
	}
}

// keyText is the text of a key value: strings as they are, integers in decimal,
// types with driver.Valuer (UUIDs) by their value.
func keyText(v any) (string, error) {
	if valuer, ok := v.(driver.Valuer); ok {
		value, err := valuer.Value()
		if err != nil {
			return "", err
		}
		v = value
	}
	if b, ok := v.([]byte); ok {
		if !utf8.Valid(b) {
			return "", errors.New("binary key")
		}
		return string(b), nil
	}
	rv := reflect.Indirect(reflect.ValueOf(v))
	switch rv.Kind() {
	case reflect.String:
		return rv.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(rv.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(rv.Uint(), 10), nil
	default:
		return "", fmt.Errorf("keys of type %T", v)
	}
}
