package gormoutbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// maxDepth is how deep values may be nested. A value that contains itself has no end; encoding/json looks for
// that from the same depth on.
const maxDepth = 1000

// encoder is what one payload is written to.
type encoder struct {
	bytes.Buffer
	depth int
}

// encode appends v, a struct of the projection's type, as JSON.
func (p *projection) encode(b *encoder, v reflect.Value) error {
	if b.depth++; b.depth > maxDepth {
		return fmt.Errorf("%s is nested more than %d deep: it may contain itself", v.Type(), maxDepth)
	}
	defer func() { b.depth-- }()
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

func (f projectedField) encodeValue(b *encoder, v reflect.Value) error {
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
func (p *projection) encodeAny(b *encoder, v reflect.Value) error {
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
