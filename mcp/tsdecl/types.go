package tsdecl

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

type writer struct {
	names map[*jsonschema.Schema]string
	root  *jsonschema.Schema // what "#/…" refers to
	done  []string           // declarations, in order
	body  map[string]string  // name → header and body, "" while it is being made
	defs  map[*jsonschema.Schema]string
}

func newWriter() *writer {
	return &writer{body: map[string]string{}, defs: map[*jsonschema.Schema]string{}}
}

// unique declares an interface. The same name with the same body is shared; with
// another body it gets a number.
func (w *writer) unique(name, members, header string) string {
	text := header + " {\n" + members + "}"
	candidate := name
	for n := 2; ; n++ {
		have, used := w.body[candidate]
		if used && have == text {
			return candidate
		}
		if !used && !slices.Contains(taken, candidate) {
			break
		}
		candidate = fmt.Sprintf("%s%d", name, n)
	}
	w.body[candidate] = text
	w.done = append(w.done, "interface "+candidate+header+" {\n"+indentMembers(members)+"}\n")
	return candidate
}

func indentMembers(m string) string {
	if m == "" {
		return ""
	}
	return indent(m, "  ")
}

// operand is a type that can stand before [] or beside & and |.
func (w *writer) operand(s *jsonschema.Schema, hint string) string {
	t := w.typ(s, hint)
	if compound(t) {
		return "(" + t + ")"
	}
	return t
}

// compound says whether a type has a | or & outside of brackets and quotes.
func compound(t string) bool {
	depth, quote := 0, rune(0)
	escaped := false
	for _, r := range t {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"':
			quote = r
		case strings.ContainsRune("([{<", r):
			depth++
		case strings.ContainsRune(")]}>", r):
			depth--
		case depth == 0 && (r == '|' || r == '&'):
			return true
		}
	}
	return false
}

// typ is the TypeScript type of a schema. hint names what has to be named.
func (w *writer) typ(s *jsonschema.Schema, hint string) string {
	switch {
	case s == nil:
		return "unknown"
	case s.Not != nil && isTrue(s.Not):
		return "never"
	case s.Ref != "":
		return w.ref(s.Ref, hint)
	case s.Const != nil:
		return literal(*s.Const)
	case s.Enum != nil:
		return union(literals(s.Enum))
	}
	var parts []string // of an intersection
	for _, alternatives := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(alternatives) == 0 {
			continue
		}
		var of []string
		for i, a := range alternatives {
			of = append(of, w.operand(a, fmt.Sprintf("%s%d", hint, i+1)))
		}
		parts = append(parts, union(of))
	}
	for i, a := range s.AllOf {
		parts = append(parts, w.typ(a, fmt.Sprintf("%sPart%d", hint, i+1)))
	}
	if own := w.own(s, hint); own != "unknown" || len(parts) == 0 {
		parts = append(parts, own)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	for i, p := range parts {
		if compound(p) {
			parts[i] = "(" + p + ")"
		}
	}
	return strings.Join(parts, " & ")
}

// own is the type that the keyword type, and those that go with it, say.
func (w *writer) own(s *jsonschema.Schema, hint string) string {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) == 0 {
		switch {
		case len(s.Properties) > 0:
			types = []string{"object"}
		case s.Items != nil || s.PrefixItems != nil:
			types = []string{"array"}
		default:
			return "unknown"
		}
	}
	types = slices.Clone(types)
	slices.SortStableFunc(types, func(a, b string) int { // null last, as people write it
		switch {
		case a == "null" && b != "null":
			return 1
		case b == "null" && a != "null":
			return -1
		}
		return 0
	})
	var of []string
	for _, t := range types {
		switch t {
		case "integer", "number":
			t = "number"
		case "array":
			t = w.array(s, hint)
		case "object":
			t = w.object(s, hint)
		}
		if !slices.Contains(of, t) {
			of = append(of, t)
		}
	}
	return union(of)
}

func (w *writer) array(s *jsonschema.Schema, hint string) string {
	if s.PrefixItems != nil {
		var of []string
		for i, p := range s.PrefixItems {
			of = append(of, w.typ(p, fmt.Sprintf("%s%d", hint, i+1)))
		}
		if rest := s.Items; rest == nil || rest.Not == nil {
			of = append(of, "..."+w.operand(rest, hint+"Rest")+"[]")
		}
		return "[" + strings.Join(of, ", ") + "]"
	}
	return w.operand(s.Items, singular(hint)) + "[]"
}

func (w *writer) object(s *jsonschema.Schema, hint string) string {
	if len(s.Properties) == 0 {
		extra := s.AdditionalProperties
		switch {
		case extra == nil || isTrue(extra):
			return "Record<string, unknown>"
		case extra.Not != nil:
			return "Record<string, never>"
		}
		return "Record<string, " + w.typ(extra, hint+"Value") + ">"
	}
	if name := w.names[s]; name != "" {
		return w.unique(name, w.members(s, name, nil), "")
	}
	return w.unique(hint, w.members(s, hint, nil), "")
}

// ref is the name of a definition, declared once; a reference to what is being
// declared is its name, so recursion stays typed.
func (w *writer) ref(ref, hint string) string {
	s, name := w.resolve(ref)
	if s == nil {
		return "unknown"
	}
	if name == "" {
		name = hint
	}
	name = typeName(name)
	if n, ok := w.defs[s]; ok {
		return n
	}
	if slices.Contains(taken, name) {
		name += "2"
	}
	for n, base := 2, name; ; n++ {
		if _, used := w.body[name]; !used {
			break
		}
		name = fmt.Sprintf("%s%d", base, n)
	}
	w.defs[s] = name
	w.body[name] = ""
	at := len(w.done)
	w.done = append(w.done, "")
	if s.Type == "object" && len(s.Properties) > 0 && s.AnyOf == nil && s.OneOf == nil && s.AllOf == nil {
		w.done[at] = comment(s.Description, nil) + "interface " + name + " {\n" + indentMembers(w.members(s, name, nil)) + "}\n"
	} else {
		w.done[at] = comment(s.Description, nil) + "type " + name + " = " + w.typ(s, name+"Value") + ";\n"
	}
	return name
}

func (w *writer) resolve(ref string) (*jsonschema.Schema, string) {
	if w.root == nil {
		return nil, ""
	}
	switch {
	case ref == "#":
		return w.root, w.names[w.root]
	case strings.HasPrefix(ref, "#/$defs/"):
		name := strings.TrimPrefix(ref, "#/$defs/")
		return w.root.Defs[name], name
	case strings.HasPrefix(ref, "#/definitions/"):
		name := strings.TrimPrefix(ref, "#/definitions/")
		return w.root.Definitions[name], name
	}
	return nil, ""
}

// members are the lines of an object's properties.
func (w *writer) members(s *jsonschema.Schema, hint string, override map[string]string) string {
	var b strings.Builder
	var of []string
	optional := false
	order := slices.Clone(s.PropertyOrder)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		p := s.Properties[name]
		if p == nil {
			continue
		}
		t := override[name]
		if t == "" {
			t = w.typ(p, hint+typeName(name))
		}
		mark := ""
		if !slices.Contains(s.Required, name) {
			mark, optional = "?", true
		}
		b.WriteString(comment(p.Description, p))
		fmt.Fprintf(&b, "%s%s: %s;\n", key(name), mark, t)
		if !slices.Contains(of, t) {
			of = append(of, t)
		}
	}
	if extra := s.AdditionalProperties; extra != nil && extra.Not == nil && len(s.Properties) > 0 {
		t := w.typ(extra, hint+"Extra")
		if t != "unknown" { // unknown has room for all
			if !slices.Contains(of, t) {
				of = append([]string{t}, of...)
			}
			if optional {
				of = append(of, "undefined")
			}
			t = union(of)
		}
		fmt.Fprintf(&b, "[key: string]: %s;\n", t)
	}
	return b.String()
}

func isTrue(s *jsonschema.Schema) bool {
	b, err := json.Marshal(s)
	return err == nil && (string(b) == "true" || string(b) == "{}")
}

func union(of []string) string {
	var flat []string
	for _, t := range of {
		if !slices.Contains(flat, t) {
			flat = append(flat, t)
		}
	}
	return strings.Join(flat, " | ")
}

func literals(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = literal(v)
	}
	return out
}

// literal is a JSON value as a literal type.
func literal(v any) string {
	switch v := v.(type) {
	case []any:
		return "[" + strings.Join(literals(v), ", ") + "]"
	case map[string]any:
		var of []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			of = append(of, key(k)+": "+literal(v[k]))
		}
		return "{ " + strings.Join(of, "; ") + " }"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "unknown"
	}
	return string(b)
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func key(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	b, _ := json.Marshal(name)
	return string(b)
}

// typeName makes a type's name of any name: query_kind → QueryKind.
func typeName(s string) string {
	var b strings.Builder
	up := true
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z' && up:
			b.WriteRune(r - 'a' + 'A')
			up = false
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
			up = false
		default:
			up = true
		}
	}
	if b.Len() == 0 {
		return "Value"
	}
	return b.String()
}

func singular(s string) string {
	if strings.HasSuffix(s, "ies") {
		return s[:len(s)-3] + "y"
	}
	if len(s) > 1 && strings.HasSuffix(s, "s") && !strings.HasSuffix(s, "ss") {
		return s[:len(s)-1]
	}
	return s + "Item"
}
