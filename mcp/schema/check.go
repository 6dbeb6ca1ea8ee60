package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"sophia/mcp/nearest"
	"sophia/messages/problem"
)

// Codes of the errors that Check returns.
const (
	CodeNotObject = "arguments_not_an_object"
	CodeUnknown   = "unknown_argument"
	CodeMissing   = "missing_argument"
	CodeInvalid   = "invalid_argument"
)

// Checker checks arguments against one schema. Its errors name the argument by
// path, what was expected, and the accepted values where they can be listed.
type Checker struct {
	root     *jsonschema.Schema
	defaults json.RawMessage // of the top-level arguments, nil when there are none
}

// NewChecker returns an error when the schema uses a keyword that Check would
// not look at: a rule that nobody enforces must not be published.
func NewChecker(s *jsonschema.Schema) (*Checker, error) {
	if err := understood(s, "arguments"); err != nil {
		return nil, err
	}
	c := &Checker{root: s}
	defaults := map[string]json.RawMessage{}
	for name, p := range s.Properties {
		if p.Default != nil {
			defaults[name] = p.Default
		}
	}
	if len(defaults) > 0 {
		c.defaults, _ = json.Marshal(defaults)
	}
	return c, nil
}

// Decode checks args and decodes them into the value that into points to, on
// top of the defaults. Empty args are an empty object.
func (c *Checker) Decode(args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 || bytes.Equal(bytes.TrimSpace(args), []byte("null")) {
		args = json.RawMessage("{}")
	}
	if err := c.Check(args); err != nil {
		return err
	}
	if c.defaults != nil {
		if err := json.Unmarshal(c.defaults, into); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(args, into); err != nil {
		return problem.Wrap(err, CodeInvalid, "the arguments can't be read").WithHint("Check the types against the tool's input schema.")
	}
	return nil
}

// Check returns nil or a *problem.Error.
func (c *Checker) Check(args json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return problem.Wrap(err, CodeNotObject, "the arguments are not JSON").WithHint("Send a JSON object.")
	}
	if _, err := d.Token(); err != io.EOF {
		return problem.New(CodeNotObject, "the arguments are more than one JSON value").WithHint("Send one JSON object.")
	}
	if _, ok := v.(map[string]any); !ok {
		return problem.New(CodeNotObject, "the arguments are %s, not an object", kind(v)).WithHint("Send a JSON object, e.g. {}.")
	}
	if e := check(c.root, v, ""); e != nil {
		return e
	}
	return nil
}

func check(s *jsonschema.Schema, v any, path string) *problem.Error {
	if !typeFits(s, v) {
		e := problem.New(CodeInvalid, "argument %s is %s; expected %s", path, kind(v), expected(s))
		return e.WithHint("%s", typeHint(s, v))
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return same(e, v) }) {
		return enumError(s, v, path)
	}
	switch v := v.(type) {
	case map[string]any:
		return checkObject(s, v, path)
	case []any:
		if s.MinItems != nil && len(v) < *s.MinItems {
			return problem.New(CodeInvalid, "argument %s has %d items; at least %d are needed", path, len(v), *s.MinItems)
		}
		if s.MaxItems != nil && len(v) > *s.MaxItems {
			return problem.New(CodeInvalid, "argument %s has %d items; at most %d are accepted", path, len(v), *s.MaxItems)
		}
		if s.Items != nil {
			for i, item := range v {
				if e := check(s.Items, item, fmt.Sprintf("%s[%d]", path, i)); e != nil {
					return e
				}
			}
		}
	case string:
		n := utf8.RuneCountInString(v)
		if s.MinLength != nil && n < *s.MinLength {
			return problem.New(CodeInvalid, "argument %s has %d characters; at least %d are needed", path, n, *s.MinLength)
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			return problem.New(CodeInvalid, "argument %s has %d characters; at most %d are accepted", path, n, *s.MaxLength)
		}
	case json.Number:
		f, _ := v.Float64()
		if s.Minimum != nil && f < *s.Minimum {
			return problem.New(CodeInvalid, "argument %s is %s; the least accepted value is %v", path, v, *s.Minimum)
		}
		if s.Maximum != nil && f > *s.Maximum {
			return problem.New(CodeInvalid, "argument %s is %s; the greatest accepted value is %v", path, v, *s.Maximum)
		}
	}
	return nil
}

func checkObject(s *jsonschema.Schema, v map[string]any, path string) *problem.Error {
	names := s.PropertyOrder
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.Properties))
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p := s.Properties[name]
		switch {
		case p != nil:
		case s.AdditionalProperties == nil:
			continue
		case closed(s.AdditionalProperties):
			e := problem.New(CodeUnknown, "there is no argument %s", join(path, name)).WithValid(names...)
			if near := nearest.Names(name, names); len(near) > 0 {
				return e.WithHint("Did you mean %s?", join(path, near[0]))
			}
			if len(names) == 0 {
				return e.WithHint("It takes no arguments.")
			}
			return e.WithHint("Use one of the valid names, or leave it out.")
		default:
			p = s.AdditionalProperties
		}
		if e := check(p, v[name], join(path, name)); e != nil {
			return e
		}
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			e := problem.New(CodeMissing, "argument %s is missing", join(path, name))
			if d := s.Properties[name]; d != nil && d.Description != "" {
				return e.WithHint("%s: %s.", join(path, name), strings.TrimSuffix(d.Description, "."))
			}
			return e.WithHint("Add %s (%s).", join(path, name), expected(s.Properties[name]))
		}
	}
	return nil
}

func enumError(s *jsonschema.Schema, v any, path string) *problem.Error {
	var names []string
	for _, e := range s.Enum {
		if e != nil {
			names = append(names, fmt.Sprint(e))
		}
	}
	shown, _ := json.Marshal(v)
	e := problem.New(CodeInvalid, "argument %s is %s, which is not one of its values", path, shorten(string(shown))).WithValid(names...)
	if text, ok := v.(string); ok {
		if near := nearest.Names(text, names); len(near) > 0 {
			return e.WithHint("Did you mean %q?", near[0])
		}
	}
	return e.WithHint("Use one of the valid values.")
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func same(e, v any) bool {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		w, isNumber := e.(float64)
		return err == nil && isNumber && f == w
	}
	return e == v
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func typeFits(s *jsonschema.Schema, v any) bool {
	types := typesOf(s)
	if len(types) == 0 {
		return true
	}
	k := jsonType(v)
	return slices.Contains(types, k) || k == "integer" && slices.Contains(types, "number")
}

// jsonType is the JSON type; a number without a fraction is an integer (2020-12, 4.2.3).
func jsonType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if whole(string(v)) {
			return "integer"
		}
		return "number"
	}
	return "unknown"
}

func whole(n string) bool {
	if !strings.ContainsAny(n, ".eE") {
		return true
	}
	// As a float64 only: expanding 1e-400000000 exactly would take for ever.
	f, err := strconv.ParseFloat(n, 64)
	return err == nil && f == math.Trunc(f)
}

func kind(v any) string {
	switch k := jsonType(v); k {
	case "array", "object", "integer":
		return "an " + k
	case "null":
		return k
	default:
		return "a " + k
	}
}

func expected(s *jsonschema.Schema) string {
	if s == nil || len(typesOf(s)) == 0 {
		return "any value"
	}
	return strings.Join(typesOf(s), " or ")
}

func typeHint(s *jsonschema.Schema, v any) string {
	if slices.Contains(typesOf(s), "array") && s.Items != nil && typeFits(s.Items, v) {
		return "Put it in a list: [value]."
	}
	if text, ok := v.(string); ok && (slices.Contains(typesOf(s), "integer") || slices.Contains(typesOf(s), "number")) {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return "Send the number without quotes."
		}
	}
	if v == nil {
		return "Leave it out instead of sending null."
	}
	return "Check the types against the tool's input schema."
}

// closed says whether s is the false schema, which jsonschema-go writes as {not: {}}.
func closed(s *jsonschema.Schema) bool { return s != nil && s.Not != nil }

// understood fails on a keyword that check doesn't enforce.
func understood(s *jsonschema.Schema, path string) error {
	if s == nil || closed(s) {
		return nil
	}
	bare := *s
	bare.Type, bare.Types, bare.Properties, bare.Required, bare.AdditionalProperties = "", nil, nil, nil, nil
	bare.Items, bare.Enum, bare.Minimum, bare.Maximum = nil, nil, nil, nil
	bare.MinLength, bare.MaxLength, bare.MinItems, bare.MaxItems = nil, nil, nil, nil
	bare.Description, bare.Title, bare.Default, bare.Format, bare.PropertyOrder = "", "", nil, "", nil
	if b, err := json.Marshal(&bare); err != nil || string(b) != "true" && string(b) != "{}" {
		return fmt.Errorf("schema: %s uses a keyword that is not checked: %s", path, b)
	}
	if err := understood(s.Items, path+"[]"); err != nil {
		return err
	}
	if err := understood(s.AdditionalProperties, path+".*"); err != nil {
		return err
	}
	for name, p := range s.Properties {
		if err := understood(p, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}
