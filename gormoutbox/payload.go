package gormoutbox

import (
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
