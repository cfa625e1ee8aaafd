package gormoutbox

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// annotation is a parsed tag of Emit.
type annotation struct {
	aggregate string
	on        []Kind
	eventType string
	topic     string
	version   string
	key       string
	// before says what an update reads beforehand: nothing, the changed columns, or their old values too.
	before string
}

const (
	beforeColumns = "columns"
	beforeValues  = "values"
	kindNone      = Kind("none")
)

var emitType = reflect.TypeFor[Emit]()

// findTag returns the tag of the Emit field that t itself declares. An embedded
// model's marker does not annotate the outer type.
func findTag(t reflect.Type) (tag string, found bool, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.PointerTo(emitType) {
			return "", true, &ConfigError{Field: t.String() + "." + f.Name, Cause: "it is a pointer to gormoutbox.Emit", Cure: "write gormoutbox.Emit"}
		}
		if f.Type != emitType {
			if _, tagged := f.Tag.Lookup("outbox"); tagged && f.Name == "_" {
				return "", true, &ConfigError{Field: t.String() + "._", Cause: "it has an outbox tag and is of type " + f.Type.String(), Cure: "give it the type gormoutbox.Emit"}
			}
			continue
		}
		if found {
			return "", true, &ConfigError{Field: t.String(), Cause: "it has two fields of type gormoutbox.Emit", Cure: "leave one"}
		}
		tag, found = f.Tag.Get("outbox"), true
	}
	return tag, found, nil
}

// annotatedBase is an embedded type that is annotated, nil if there is none.
func annotatedBase(t reflect.Type) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		base := f.Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		if !f.Anonymous || base.Kind() != reflect.Struct {
			continue
		}
		if _, annotated, _ := findTag(base); annotated {
			return base
		}
	}
	return nil
}

// parseTag parses the options of an Emit field; all mistakes are returned together.
func parseTag(model, tag string) (annotation, []error) {
	var a annotation
	var errs []error
	fail := func(option, cause, cure string) {
		errs = append(errs, &ConfigError{Field: model + " outbox tag " + option, Cause: cause, Cure: cure})
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(tag, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		option, value, _ := strings.Cut(part, "=")
		option, value = strings.TrimSpace(option), strings.TrimSpace(value)
		if seen[option] {
			fail(option, "it is given twice", "give it once")
			continue
		}
		seen[option] = true
		set := func(dst *string) {
			if cause := nameProblem(value); cause != "" {
				fail(option, cause, nameCure)
				return
			}
			if strings.ContainsAny(value, ";=\"'`") {
				fail(option, fmt.Sprintf("%q has a separator or quote in it", value), "separate options by commas and leave out quotes")
				return
			}
			*dst = value
		}
		switch option {
		case "aggregate":
			set(&a.aggregate)
		case "type":
			set(&a.eventType)
		case "topic":
			set(&a.topic)
		case "version":
			set(&a.version)
		case "key":
			set(&a.key)
		case "on":
			for kind := range strings.SplitSeq(value, "|") {
				switch k := Kind(strings.TrimSpace(kind)); k {
				case Created, Updated, Deleted, kindNone:
					a.on = append(a.on, k)
				default:
					fail(option, fmt.Sprintf("unknown kind %q", string(k)), "use created, updated and deleted, separated by |, or none")
				}
			}
			if len(a.on) > 1 && slices.Contains(a.on, kindNone) {
				fail(option, "none stands beside other kinds", "leave one or the other")
			}
		case "before":
			if a.before = value; value != beforeColumns && value != beforeValues {
				fail(option, fmt.Sprintf("unknown value %q", value), "use columns or values")
			}
		default:
			fail(option, "unknown option", "known are aggregate, on, type, topic, version, key and before")
		}
	}
	if !seen["aggregate"] {
		fail("aggregate", "it is missing", `write outbox:"aggregate=NAME"`)
	}
	if len(errs) == 0 {
		for _, kind := range []Kind{Created, Updated, Deleted, Upserted} {
			if cause := nameProblem(a.typeOf(kind)); cause != "" {
				fail("aggregate", "the event type made from it: "+cause, nameCure)
				break
			}
		}
	}
	return a, errs
}

// emits says whether a write of this kind is an event. An upsert is one if it may be.
func (a annotation) emits(kind Kind) bool {
	if len(a.on) == 0 || slices.Contains(a.on, kind) {
		return true
	}
	return kind == Upserted && (slices.Contains(a.on, Created) || slices.Contains(a.on, Updated))
}

func (a annotation) typeOf(kind Kind) string {
	if a.eventType == "" {
		return a.aggregate + "." + string(kind)
	}
	return strings.ReplaceAll(a.eventType, "{kind}", string(kind))
}
