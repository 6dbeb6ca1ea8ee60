package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Encode is compact JSON of v with nil lists and maps written as [] and {},
// as the schema promises, and without HTML escapes. v is a pointer to a
// struct; its nil lists are replaced.
func Encode(v any) (json.RawMessage, error) {
	fill(reflect.ValueOf(v))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var raw = reflect.TypeFor[json.RawMessage]()

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		if known[v.Type()] != nil {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == raw {
			return
		}
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			return
		}
		if !holdsLists(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}

// holdsLists says whether a value of type t may hold something to fill.
func holdsLists(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice, reflect.Map:
		return true
	}
	return false
}
