package gormoutbox

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm/schema"
)

// projection encodes a struct as encoding/json does, without the fields that
// are excluded: fields tagged outbox:"-", and in a model associations and
// fields without a column. Names, order, omitempty, omitzero and
// string follow the json tags, so a consumer can decode into the same struct.
type projection struct {
	fields []projectedField
}

type projectedField struct {
	name      string // as JSON, with quotes and colon
	index     []int
	omitEmpty bool
	omitZero  bool
	quoted    bool
	nested    *projection // set if something below is excluded
}

var (
	jsonMarshalerType = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	serializerType    = reflect.TypeFor[schema.SerializerInterface]()
)

// projectionBuilder collects the mistakes of one model.
type projectionBuilder struct {
	model  string
	schema *schema.Schema
	absent map[string]bool              // columns of the schema that the table does not have
	memo   map[reflect.Type]*projection // of types outside of the model, which may be recursive
	errs   []error
}

func (b *projectionBuilder) fail(field, cause, cure string) {
	b.errs = append(b.errs, &ConfigError{Field: b.model + "." + field, Cause: cause, Cure: cure})
}

// candidate is a field with the depth at which it was found, for Go's rule of
// the least nested name.
type candidate struct {
	projectedField
	json   string
	depth  int
	tagged bool
}

// build makes the projection of struct type t. path are the Go names from the model down to t; inModel
// says whether t's fields are columns of the model.
func (b *projectionBuilder) build(t reflect.Type, path []string, inModel bool) *projection {
	var all []candidate
	b.collect(t, nil, path, 0, inModel, &all)
	p := &projection{}
	for i, c := range all {
		if dominant(all, i) {
			p.fields = append(p.fields, c.projectedField)
		}
	}
	return p
}

// dominant says whether candidate i is the one that encoding/json would take for its name.
func dominant(all []candidate, i int) bool {
	for j, other := range all {
		if j == i || other.json != all[i].json {
			continue
		}
		if other.depth < all[i].depth || (other.depth == all[i].depth && (other.tagged || !all[i].tagged)) {
			return false
		}
	}
	return true
}

// maxEmbedded bounds how deeply structs are embedded in one another.
const maxEmbedded = 16

func (b *projectionBuilder) collect(t reflect.Type, index []int, path []string, depth int, inModel bool, out *[]candidate) {
	if depth > maxEmbedded {
		b.fail(strings.Join(path[:2], "."), "it embeds itself", `exclude it with outbox:"-"`)
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		names := append(append([]string(nil), path...), f.Name)
		if f.Type == emitType || f.Name == "_" || b.excluded(f, names) {
			continue
		}
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		elem := f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		if f.Anonymous && name == "" && elem.Kind() == reflect.Struct {
			if !f.IsExported() && f.Type.Kind() == reflect.Pointer {
				continue
			}
			if !b.isColumn(names, inModel) {
				b.collect(elem, at, names, depth+1, inModel && b.isEmbedded(names), out)
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		column := b.isColumn(names, inModel)
		if inModel && !column && !b.isEmbedded(names) {
			continue // an association, or ignored by GORM: not in the row
		}
		c := candidate{json: name, tagged: name != "", depth: depth}
		if name == "" {
			c.json = f.Name
		}
		c.index = at
		key, _ := json.Marshal(c.json) // a string
		c.name = string(key) + ":"
		for option := range strings.SplitSeq(options, ",") {
			c.omitEmpty = c.omitEmpty || option == "omitempty"
			c.omitZero = c.omitZero || option == "omitzero"
			c.quoted = c.quoted || option == "string"
		}
		c.nested = b.nested(f.Type, names, inModel && !column)
		*out = append(*out, c)
	}
}

// excluded reads the field's outbox tag.
func (b *projectionBuilder) excluded(f reflect.StructField, names []string) bool {
	tag, ok := f.Tag.Lookup("outbox")
	if !ok || tag == "plain" {
		return false
	}
	if tag != "-" {
		b.fail(strings.Join(names, "."), fmt.Sprintf("unknown outbox option %q", tag), `use outbox:"-" or outbox:"plain"`)
	}
	return tag == "-"
}

// inRow says whether reading the row back sets the field. A field that GORM may
// only write would be zero whatever the database holds.
func inRow(f *schema.Field) bool { return f.DBName != "" && f.Readable }

func (b *projectionBuilder) inRow(f *schema.Field) bool { return inRow(f) && !b.absent[f.DBName] }

// isColumn says whether the field is a column of the model by itself.
func (b *projectionBuilder) isColumn(names []string, inModel bool) bool {
	if !inModel {
		return false
	}
	path := strings.Join(names, ".")
	for _, f := range b.schema.Fields {
		if b.inRow(f) && strings.Join(f.BindNames, ".") == path {
			return true
		}
	}
	return false
}

// isEmbedded says whether the field is a struct whose fields are columns.
func (b *projectionBuilder) isEmbedded(names []string) bool {
	prefix := strings.Join(names, ".") + "."
	for _, f := range b.schema.Fields {
		if b.inRow(f) && strings.HasPrefix(strings.Join(f.BindNames, ".")+".", prefix) {
			return true
		}
	}
	return false
}

// nested returns a projection for the field's type if something inside of it is excluded, else nil.
func (b *projectionBuilder) nested(t reflect.Type, names []string, inModel bool) *projection {
	if !hasExclusion(t, nil) && !inModel {
		return nil
	}
	s := t
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice || s.Kind() == reflect.Array {
		s = s.Elem()
	}
	field := strings.Join(names, ".")
	if s.Kind() != reflect.Struct {
		b.fail(field, fmt.Sprintf(`a type below %s has outbox:"-" fields and is reached through %s`, t, s.Kind()), `exclude the whole field with outbox:"-"`)
		return nil
	}
	if marshalsItself(s) {
		b.fail(field, fmt.Sprintf(`%s marshals itself, so its outbox:"-" fields can't be left out`, s), `exclude the whole field with outbox:"-"`)
		return nil
	}
	if inModel {
		return b.build(s, names, true)
	}
	if p := b.memo[s]; p != nil {
		return p
	}
	p := &projection{}
	if b.memo == nil {
		b.memo = map[reflect.Type]*projection{}
	}
	b.memo[s] = p
	p.fields = b.build(s, names, false).fields
	return p
}

func marshalsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshalerType) || p.Implements(textMarshalerType)
}

// hasExclusion says whether t contains a field tagged outbox:"-" at any depth.
func hasExclusion(t reflect.Type, seen []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return hasExclusion(t.Elem(), seen)
	case reflect.Map:
		return hasExclusion(t.Elem(), seen) || hasExclusion(t.Key(), seen)
	case reflect.Struct:
	default:
		return false
	}
	for _, s := range seen {
		if s == t {
			return false
		}
	}
	seen = append(seen, t)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("outbox") == "-" || hasExclusion(f.Type, seen) {
			return true
		}
	}
	return false
}

// encode appends v, a struct of the projection's type, as JSON.
func (p *projection) encode(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	first := true
	for _, f := range p.fields {
		fv, ok := fieldByIndex(v, f.index)
		if !ok || (f.omitEmpty && isEmpty(fv)) || (f.omitZero && isZero(fv)) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString(f.name)
		if err := f.encodeValue(b, fv); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func (f projectedField) encodeValue(b *bytes.Buffer, v reflect.Value) error {
	if f.nested != nil {
		return f.nested.encodeAny(b, v)
	}
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface() // so that marshallers with pointer receivers are seen
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if f.quoted && quotable(v.Type()) && !marshalsItself(v.Type()) && !bytes.Equal(text, []byte("null")) {
		if text, err = json.Marshal(string(text)); err != nil {
			return err
		}
	}
	b.Write(text)
	return nil
}

// encodeAny follows pointers and lists down to the projected struct.
func (p *projection) encodeAny(b *bytes.Buffer, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return nil
		}
		return p.encodeAny(b, v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			b.WriteString("null")
			return nil
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := p.encodeAny(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	default:
		return p.encode(b, v)
	}
}

// fieldByIndex is reflect's, without its panic on a nil embedded pointer.
func fieldByIndex(v reflect.Value, index []int) (reflect.Value, bool) {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

// isEmpty is encoding/json's rule for omitempty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

func isZero(v reflect.Value) bool {
	if v.CanAddr() {
		if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok && v.Kind() != reflect.Pointer {
			return z.IsZero()
		}
	}
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return z.IsZero()
	}
	return v.IsZero()
}

// quotable says to which types encoding/json applies the option "string".
func quotable(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return false
	}
}
