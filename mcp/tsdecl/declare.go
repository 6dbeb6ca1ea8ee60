package tsdecl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Method is one method to declare.
type Method struct {
	Name   string // camelCase
	About  string // its doc comment
	Input  *jsonschema.Schema
	Output *jsonschema.Schema
	Names  map[*jsonschema.Schema]string // names of object schemas in both, may be nil
	List   bool                          // Output is {items, total, cursor?, …}, and Input has compact and fields
}

const head = `declare namespace Sophia {
  /** What every response carries. */
  interface Response {
    /** Posts that wait for you; -1 when they could not be counted. */
    _inbox_unread: number;
  }

  /** The one shape of every list. */
  interface Page<T> extends Response {
    items: T[];
    /** How many there are in all, not only on this page. */
    total: number;
    /** Pass it back for the next page; absent on the last. */
    cursor?: string;
  }

  /** Asks for some keys of each item only. */
  type Projection<T> = { compact: true } | { fields: (keyof T & string)[] };
`

// taken are names that a schema can't have: ours, and those the text refers to.
var taken = []string{"Response", "Page", "Projection", "Methods", "Promise", "Partial", "Record", "Array"}

// Declarations are the declarations of all methods, in the order given.
func Declarations(methods []Method) string {
	w := newWriter()
	var calls strings.Builder
	for _, m := range methods {
		calls.WriteString(w.method(m))
	}
	var out strings.Builder
	out.WriteString(head)
	for _, d := range w.done {
		out.WriteString("\n" + indent(d, "  "))
	}
	out.WriteString("\n  interface Methods {\n" + indent(calls.String(), "    ") + "  }\n}\n\ndeclare const sophia: Sophia.Methods;\n")
	return out.String()
}

// method declares a method's types and returns its signatures.
func (w *writer) method(m Method) string {
	w.names, w.root = m.Names, nil
	base := strings.ToUpper(m.Name[:1]) + m.Name[1:]
	row := ""
	if m.List {
		w.root = m.Output
		row = w.operand(m.Output.Properties["items"].Items, base+"Item")
	}
	w.root = m.Input
	args := ""
	if m.Input != nil && len(m.Input.Properties) > 0 {
		override := map[string]string{}
		if m.List {
			override["fields"] = "(keyof " + row + " & string)[]"
		}
		args = w.unique(base+"Input", w.members(m.Input, base, override), "")
	}
	w.root = m.Output
	plain, partial := w.output(m, base, row)
	doc := comment(m.About, nil)
	optional := "?"
	if m.Input != nil && len(m.Input.Required) > 0 {
		optional = ""
	}
	var b strings.Builder
	b.WriteString(doc)
	if args == "" {
		fmt.Fprintf(&b, "%s(): Promise<%s>;\n", m.Name, plain)
		return b.String()
	}
	if m.List {
		fmt.Fprintf(&b, "%s(args: %s & Projection<%s>): Promise<%s>;\n", m.Name, args, row, partial)
	}
	fmt.Fprintf(&b, "%s(args%s: %s): Promise<%s>;\n", m.Name, optional, args, plain)
	return b.String()
}

// output names the result: Page<Row>, an extension of it, or a type of its own.
func (w *writer) output(m Method, base, row string) (plain, partial string) {
	if m.Output == nil {
		return "Response", "Response"
	}
	if !m.List {
		if len(m.Output.Properties) == 0 && m.Output.AdditionalProperties == nil {
			return "Response", "Response"
		}
		name := w.unique(base+"Output", w.members(m.Output, base, nil), " extends Response")
		return name, name
	}
	rest := m.Output.CloneSchemas()
	rest.PropertyOrder = slices.Clone(m.Output.PropertyOrder)
	w.adopt(m.Output, rest)
	for _, k := range []string{"items", "total", "cursor"} {
		delete(rest.Properties, k)
		rest.Required = slices.DeleteFunc(slices.Clone(rest.Required), func(s string) bool { return s == k })
	}
	if len(rest.Properties) == 0 {
		return "Page<" + row + ">", "Page<Partial<" + row + ">>"
	}
	name := w.unique(base+"Page", w.members(rest, base, nil), "<T> extends Page<T>")
	return name + "<" + row + ">", name + "<Partial<" + row + ">>"
}

// adopt gives the names of one schema's parts to those of its clone.
func (w *writer) adopt(from, to *jsonschema.Schema) {
	names := map[*jsonschema.Schema]string{}
	for k, v := range w.names {
		names[k] = v
	}
	var walk func(a, b *jsonschema.Schema)
	walk = func(a, b *jsonschema.Schema) {
		if a == nil || b == nil {
			return
		}
		if n := w.names[a]; n != "" {
			names[b] = n
		}
		for k := range a.Properties {
			walk(a.Properties[k], b.Properties[k])
		}
		walk(a.Items, b.Items)
		walk(a.AdditionalProperties, b.AdditionalProperties)
	}
	walk(from, to)
	w.names = names
}

func indent(s, by string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = by + l
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
