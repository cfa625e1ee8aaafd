package capturetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"
)

// object decodes a JSON object without loss of digits.
func object(text []byte) (map[string]any, error) {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return m, d.Decode(&m)
}

// difference returns the first difference of two values, empty if there is none.
func difference(path string, want, got any) string {
	return compareValues(path, reflect.ValueOf(want), reflect.ValueOf(got), 0)
}

func compareValues(path string, want, got reflect.Value, depth int) string {
	if !want.IsValid() || !got.IsValid() {
		if want.IsValid() != got.IsValid() {
			return fmt.Sprintf("%s: want %s, got %s", path, text(want), text(got))
		}
		return ""
	}
	if want.Type() != got.Type() {
		return fmt.Sprintf("%s: want a %s, got a %s: %s", path, want.Type(), got.Type(), text(got))
	}
	if depth > 30 {
		return "" // a circle
	}
	if want.Type() == reflect.TypeFor[time.Time]() && want.CanInterface() {
		return compareTimes(path, want.Interface().(time.Time), got.Interface().(time.Time))
	}
	switch want.Kind() {
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			if want.IsNil() != got.IsNil() {
				return fmt.Sprintf("%s: want %s, got %s", path, text(want), text(got))
			}
			return ""
		}
		return compareValues(path, want.Elem(), got.Elem(), depth+1)
	case reflect.Struct:
		for i := range want.NumField() {
			if d := compareValues(path+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i), depth+1); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if want.Len() != got.Len() {
			return fmt.Sprintf("%s: want %d elements, got %d: want %s, got %s", path, want.Len(), got.Len(), text(want), text(got))
		}
		for i := range want.Len() {
			if d := compareValues(fmt.Sprintf("%s[%d]", path, i), want.Index(i), got.Index(i), depth+1); d != "" {
				return d
			}
		}
		if want.Kind() == reflect.Slice && want.IsNil() != got.IsNil() {
			return fmt.Sprintf("%s: nil: want %t, got %t", path, want.IsNil(), got.IsNil())
		}
		return ""
	case reflect.Map:
		return compareMaps(path, want, got, depth)
	case reflect.String:
		return compareStrings(path, want.String(), got.String())
	case reflect.Func, reflect.Chan:
		return ""
	default:
		if a, b := text(want), text(got); a != b {
			return fmt.Sprintf("%s: want %s, got %s", path, a, b)
		}
		return ""
	}
}

func compareMaps(path string, want, got reflect.Value, depth int) string {
	for _, key := range want.MapKeys() {
		value := got.MapIndex(key)
		if !value.IsValid() {
			return fmt.Sprintf("%s: %v is missing", path, key)
		}
		if d := compareValues(fmt.Sprintf("%s[%v]", path, key), want.MapIndex(key), value, depth+1); d != "" {
			return d
		}
	}
	for _, key := range got.MapKeys() {
		if !want.MapIndex(key).IsValid() {
			return fmt.Sprintf("%s: %v is unexpected", path, key)
		}
	}
	return ""
}

// compareTimes lets times that the database's clock gave differ.
func compareTimes(path string, want, got time.Time) string {
	near := func(t time.Time) bool { return time.Since(t).Abs() < 24*time.Hour }
	if want.Equal(got) || near(want) && near(got) {
		return ""
	}
	return fmt.Sprintf("%s: want %s, got %s", path, want, got)
}

// compareStrings knows that drivers disagree about the time zone of what they return.
func compareStrings(path, want, got string) string {
	if want == got {
		return ""
	}
	a, err := time.Parse(time.RFC3339Nano, want)
	if err == nil {
		if b, err := time.Parse(time.RFC3339Nano, got); err == nil {
			return compareTimes(path, a, b)
		}
	}
	return fmt.Sprintf("%s: want %q, got %q", path, want, got)
}

func text(v reflect.Value) string {
	if !v.IsValid() {
		return "nothing"
	}
	if v.CanInterface() && (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) {
		if out, err := json.Marshal(v.Interface()); err == nil {
			return string(out)
		}
	}
	return fmt.Sprint(v)
}

// sortLists sorts those of the values that are pointers to lists.
func sortLists(values []any) {
	for _, v := range values {
		list := reflect.ValueOf(v)
		for list.Kind() == reflect.Pointer && !list.IsNil() {
			list = list.Elem()
		}
		if list.Kind() != reflect.Slice {
			continue
		}
		sort.SliceStable(list.Interface(), func(i, j int) bool { return listed(list.Index(i)) < listed(list.Index(j)) })
	}
}

func listed(v reflect.Value) string {
	out, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
