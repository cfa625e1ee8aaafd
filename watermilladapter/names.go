package watermilladapter

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/gormoutbox/outbox/gormoutbox"
)

// NamedType is a Go type with the name of its messages.
type NamedType struct {
	goType reflect.Type
	name   string
}

// EventType says that messages of type T have this event type, in the outbox and as their metadata name.
func EventType[T any](name string) NamedType {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return NamedType{t, name}
}

// NameGenerator returns a function for GenerateName of Watermill's CQRS marshalers that knows these types by their event types. With it
// processors find the events that the plugin or gormoutbox.Append has written, and a bus publishes under event types:
//
//	names, err := watermilladapter.NameGenerator(nil,
//		watermilladapter.EventType[OrderCreated]("order.created"),
//		watermilladapter.EventType[OrderShipped]("order.shipped"),
//	)
//	marshaler := cqrs.JSONMarshaler{GenerateName: names}
//
// For other types fallback is asked; nil means the type's name with its package, such as "orders.Created", as Watermill does
// by default. Mistakes, such as two types with one name, are returned together.
func NameGenerator(fallback func(v any) string, types ...NamedType) (func(v any) string, error) {
	if fallback == nil {
		fallback = func(v any) string { return strings.TrimLeft(fmt.Sprintf("%T", v), "*") }
	}
	byType, byName := make(map[reflect.Type]string, len(types)), make(map[string]reflect.Type, len(types))
	var errs []error
	for i, t := range types {
		fail := func(cause, cure string) {
			errs = append(errs, &Error{Field: fmt.Sprintf("types[%d]", i), Cause: cause, Cure: cure})
		}
		switch {
		case t.goType == nil:
			fail("it is empty", "make it by EventType")
			continue
		case t.name == "" || len(t.name) > gormoutbox.MaxName:
			fail(fmt.Sprintf("the name of %s is empty or too long", t.goType), "use 1 to 255 bytes")
		}
		if name, ok := byType[t.goType]; ok {
			fail(fmt.Sprintf("%s is named %q already", t.goType, name), "name it once")
		}
		if other, ok := byName[t.name]; ok && other != t.goType {
			fail(fmt.Sprintf("%q is the name of %s already", t.name, other), "a processor could not tell them apart: choose another name")
		}
		byType[t.goType], byName[t.name] = t.name, t.goType
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func(v any) string {
		t := reflect.TypeOf(v)
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, ok := byType[t]; ok {
			return name
		}
		return fallback(v)
	}, nil
}
