package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Inferred is the schema of a Go type together with the Go names of the
// structs in it, which the TypeScript declarations use.
type Inferred struct {
	Schema *jsonschema.Schema
	Names  map[*jsonschema.Schema]string
}

var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
}

// Of infers the schema of t, which must be a struct or a pointer to one.
func Of(t reflect.Type) (Inferred, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return Inferred{}, fmt.Errorf("schema: %v is not a struct", t)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return Inferred{}, fmt.Errorf("schema: %w", err)
	}
	inf := Inferred{Schema: s, Names: map[*jsonschema.Schema]string{}}
	if err := inf.refine(s, t); err != nil {
		return Inferred{}, err
	}
	return inf, nil
}

// refine walks the schema beside its type and adds what the tags say.
func (inf *Inferred) refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s == nil || known[t] != nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		notNull(s)
		return inf.refine(s.Items, t.Elem())
	case reflect.Map:
		return inf.refine(s.AdditionalProperties, t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if t.Name() != "" {
		inf.Names[s] = typeName(t)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		p := s.Properties[name]
		if p == nil {
			continue
		}
		options := strings.Split(rest, ",")
		optional := slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
		if f.Type.Kind() == reflect.Pointer && optional {
			notNull(p) // left out when nil, so never null
		}
		if err := tags(p, f); err != nil {
			return fmt.Errorf("schema: %v.%s: %w", t, f.Name, err)
		}
		if err := inf.refine(p, f.Type); err != nil {
			return err
		}
		describe(p)
	}
	return nil
}

// describe keeps a property that may be anything from being written as the
// schema true. That is valid, but the official TypeScript SDK wants an object
// for each property, and Claude Code 2.1.222 drops every tool of a server that
// has one such property.
func describe(p *jsonschema.Schema) {
	if b, err := json.Marshal(p); err == nil && string(b) == "true" {
		p.Description = "any JSON value"
	}
}

// typeName is the name without type arguments: Page[store.Fact] is PageFact.
func typeName(t reflect.Type) string {
	name, args, generic := strings.Cut(t.Name(), "[")
	if generic {
		args = strings.TrimSuffix(args, "]")
		for _, a := range strings.Split(args, ",") {
			a = a[strings.LastIndexAny(a, "./")+1:]
			name += strings.Map(letters, a)
		}
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return -1
}

func notNull(s *jsonschema.Schema) {
	if i := slices.Index(s.Types, "null"); i >= 0 {
		s.Types = slices.Delete(slices.Clone(s.Types), i, i+1)
		if len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
}

func tags(s *jsonschema.Schema, f reflect.StructField) error {
	base := f.Type
	for base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	on := s // an enum or format on a list is about its items
	if base.Kind() == reflect.Slice && known[base] == nil && s.Items != nil {
		on = s.Items
	}
	if v := f.Tag.Get("enum"); v != "" {
		for _, e := range strings.Split(v, ",") {
			on.Enum = append(on.Enum, e)
		}
		if slices.Contains(on.Types, "null") {
			on.Enum = append(on.Enum, nil)
		}
	}
	if v := f.Tag.Get("format"); v != "" {
		on.Format = v
	}
	if v, ok := f.Tag.Lookup("default"); ok {
		raw := json.RawMessage(v)
		if base.Kind() == reflect.String {
			raw, _ = json.Marshal(v)
		}
		if !json.Valid(raw) {
			return fmt.Errorf("default %q is not JSON", v)
		}
		if err := json.Unmarshal(raw, reflect.New(f.Type).Interface()); err != nil {
			return fmt.Errorf("default: %w", err)
		}
		s.Default = raw
	}
	for _, bound := range []string{"min", "max"} {
		v := f.Tag.Get(bound)
		if v == "" {
			continue
		}
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", bound, err)
		}
		whole := int(n)
		switch k := base.Kind(); {
		case k == reflect.String && bound == "min":
			s.MinLength = &whole
		case k == reflect.String:
			s.MaxLength = &whole
		case k == reflect.Slice && bound == "min":
			s.MinItems = &whole
		case k == reflect.Slice:
			s.MaxItems = &whole
		case bound == "min":
			s.Minimum = &n
		default:
			s.Maximum = &n
		}
	}
	return nil
}
