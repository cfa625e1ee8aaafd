package gormoutbox

import (
	"encoding/json"
	"errors"
	"reflect"
	"sync"
)

// valueProjections are those of types that somebody gave as a payload, by type. Programs have few.
var valueProjections sync.Map // reflect.Type → valueProjection

// valueProjection is nil for types without excluded fields.
type valueProjection struct {
	projection *projection
	err        error
}

// marshalValue is encoding/json, but for fields tagged outbox:"-" at any depth: whoever gives the
// model itself as a payload has not meant to publish what never leaves the database. Values behind interfaces
// are not known by the type and are encoded as they are.
func marshalValue(v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	known, ok := valueProjections.Load(t)
	if !ok {
		b := &projectionBuilder{model: t.String()}
		p := b.nested(t, []string{t.String()}, false)
		known, _ = valueProjections.LoadOrStore(t, valueProjection{p, errors.Join(b.errs...)})
	}
	vp := known.(valueProjection)
	if vp.err != nil {
		return nil, vp.err
	}
	if vp.projection == nil {
		return json.Marshal(v)
	}
	var b encoder
	if err := vp.projection.encodeAny(&b, reflect.ValueOf(v)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
